"""Traces of records that the gateway makes: who publishes single records need know nothing of traces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.records.batch_builder import Header
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_protocol.tracing import enabled

if TYPE_CHECKING:
    from sharebroker_protocol.tracing.publishing import BatchTraces, RecordTraces


@dataclass(slots=True)
class _Placed:
    """The records of a request that go to one partition, for their traces."""

    topic: str
    partition: int
    sent_at: float
    base_offset: int = -1
    error: KafkaError | None = None


class PublishTraces:
    """Of one Publish."""

    def __init__(self, topic: str, traces: RecordTraces) -> None:
        self._topic = topic
        self._traces = traces
        self._untraced = traces.left_out()
        self._batches: dict[int, tuple[_Placed, BatchTraces]] = {}

    def begin(self, record: pb.PublishRecord, partition: int, index: int) -> list[Header]:
        """What a record's headers are to say besides; `index` is its place among those of its partition."""
        if self._untraced:
            self._untraced -= 1
            return []
        self._untraced = self._traces.left_out()
        headers = [(header.key, header.value) for header in record.headers]
        span = self._traces.begin(self._topic, headers, now())
        if span is None:
            return []
        if partition not in self._batches:
            placed = _Placed(self._topic, partition, now())
            self._batches[partition] = (placed, self._traces.of_batch(placed))
        self._batches[partition][1].add(index, span)
        return self._traces.headers(span)

    def answered(self, answers: Iterable[leader.ProduceResponse.Partition]) -> None:
        """The records are durable, or refused."""
        for answer in answers:
            found = self._batches.get(answer.partition)
            if found is None:
                continue
            placed, traces = found
            placed.base_offset = answer.base_offset
            if answer.error_code:
                placed.error = KafkaError(ErrorCode(answer.error_code), answer.error_message)
            traces.settled()

    def given_up(self) -> None:
        """Who asked waits no longer: what became of the records nobody hears."""
        for placed, traces in self._batches.values():
            placed.error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Whoever published it gave up waiting.")
            traces.settled()


def publish_traces(topic: str) -> PublishTraces | None:
    """None where this process does not trace."""
    if enabled.on is None:
        return None
    from sharebroker_protocol.tracing.publishing import RecordTraces  # brings OpenTelemetry in

    return PublishTraces(topic, RecordTraces(enabled.on))
