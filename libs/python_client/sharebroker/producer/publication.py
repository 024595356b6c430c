"""A batch on its way, and one record's share of it."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

from sharebroker_protocol.outcome import Outcome
from sharebroker_protocol.records.batch_builder import BatchBuilder

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from sharebroker_protocol.tracing.publishing import BatchTraces, RecordTraces


class RecordMetadata(NamedTuple):
    """Where a record went; `timestamp` in ms since the Unix epoch when the log sets it, else -1."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class PendingBatch(Outcome):
    """Records of one partition that travel together.

    `created`, and `sent_at` (0: not yet), are in seconds by the producer's clock.
    """

    __slots__ = (
        "_builder",
        "_data",
        "base_offset",
        "created",
        "not_before",
        "partition",
        "sent_at",
        "size",
        "timestamp",
        "topic",
        "traces",
        "tries",
    )

    def __init__(self, topic: str, partition: int, builder: BatchBuilder, created: float) -> None:
        super().__init__()
        self.topic = topic
        self.partition = partition
        self.created = created
        self.not_before = created
        self.sent_at = 0.0
        self.size = 0
        self.tries = 0
        self.base_offset = -1
        self.timestamp = -1
        self.traces: BatchTraces | None = None
        self._builder = builder
        self._data: bytes | None = None

    @property
    def builder(self) -> BatchBuilder:
        """Where records are added until the batch is sealed."""
        return self._builder

    @property
    def data(self) -> bytes:
        """The finished batch; asking for it seals it."""
        if self._data is None:
            self._data = self._builder.build()
        return self._data


class Publication:
    """One record's own outcome: await it, or take `result()` in a thread, for where it went; or ignore it."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: PendingBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.done

    def traced(self, traces: RecordTraces, span: Span) -> None:
        """The span is over when the outcome is known."""
        batch = self._batch
        if batch.traces is None:
            batch.traces = traces.of_batch(batch)
            batch.when_done(batch.traces.settled)
        batch.traces.add(self._index, span)
        if batch.done:  # by another thread, meanwhile
            batch.traces.settled()

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        yield from self._batch.wait()
        return self._metadata()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Block until the outcome is known, at most `timeout` seconds (TimeoutError). Raises KafkaError."""
        self._batch.wait_blocking(timeout)
        return self._metadata()

    def _metadata(self) -> RecordMetadata:
        batch = self._batch
        batch.raise_error()
        return RecordMetadata(batch.topic, batch.partition, batch.base_offset + self._index, batch.timestamp)
