"""What ShareFetch and ShareAcknowledge have in common on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.gateway.kafka.dispatch.call import Call
from sharebroker_server.gateway.share.acknowledge import Caller


def caller(call: Call) -> Caller:
    """The connection, and the partitions that clients are to ask this broker for."""
    return Caller(call.client.connection, call.view.leads, leaving=call.view.leaving)


def asked(topics: Iterable[Any]) -> dict[TopicIdPartition, list[AckBatch]]:
    """Partitions by first mention, with their acknowledgements: librdkafka names a topic more than once."""
    batches: dict[TopicIdPartition, list[AckBatch]] = {}
    for topic in topics:
        for part in topic.partitions:
            of_part = batches.setdefault(TopicIdPartition(topic.topic_id, part.partition_index), [])
            for batch in part.acknowledgement_batches:
                of_part.append(AckBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types))
    return batches
