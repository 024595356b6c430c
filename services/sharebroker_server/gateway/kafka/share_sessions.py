"""What ShareFetch and ShareAcknowledge share: the caller, and partitions with acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.share.acknowledge import Caller


class _Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]


class _Partition(Protocol):
    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[_Batch]: ...


class _Topic(Protocol):
    topic_id: str

    @property
    def partitions(self) -> Sequence[_Partition]: ...


def caller(call: Call) -> Caller:
    """Returns the connection of the request, and which partitions clients fetch from this broker."""
    return Caller(call.client.connection, call.view.leads, leaving=call.view.leaving)


def ack_batches(topics: Iterable[_Topic]) -> dict[TopicIdPartition, list[AckBatch]]:
    """Returns the ack batches by partition, in the order of first mention (librdkafka names topics
    repeatedly).
    """
    batches: dict[TopicIdPartition, list[AckBatch]] = {}
    for topic in topics:
        for part in topic.partitions:
            of_partition = batches.setdefault(TopicIdPartition(topic.topic_id, part.partition_index), [])
            for batch in part.acknowledgement_batches:
                of_partition.append(AckBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types))
    return batches
