"""A batch of records being published, and the outcome of one record in it."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

from sharebroker_protocol.outcome import Outcome
from sharebroker_protocol.records.batch_builder import BatchBuilder

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from sharebroker_protocol.tracing.publishing import BatchTraces, RecordTraces


class RecordMetadata(NamedTuple):
    """The position of a published record (Kafka: RecordMetadata)."""

    topic: str
    """The name of the topic."""
    partition: int
    """The partition number."""
    offset: int
    """The record's offset in the partition."""
    timestamp: int
    """Milliseconds since the Unix epoch if the log sets timestamps (`LogAppendTime`), else -1."""


class PendingBatch(Outcome):
    """Records of one partition that are sent together.

    `created`, `not_before` and `sent_at` (0: not sent) are in seconds by the producer's clock.
    """

    __slots__ = (
        "_builder",
        "_data",
        "attempts",
        "base_offset",
        "created",
        "not_before",
        "partition",
        "sent_at",
        "size",
        "timestamp",
        "topic",
        "traces",
    )

    def __init__(self, topic: str, partition: int, builder: BatchBuilder, created: float) -> None:
        super().__init__()
        self.topic = topic
        self.partition = partition
        self.created = created
        self.not_before = created
        self.sent_at = 0.0
        self.size = 0
        self.attempts = 0
        self.base_offset = -1
        self.timestamp = -1
        self.traces: BatchTraces | None = None
        self._builder = builder
        self._data: bytes | None = None

    @property
    def builder(self) -> BatchBuilder:
        """Collects records until `data` is read."""
        return self._builder

    @property
    def data(self) -> bytes:
        """The encoded batch. Reading it closes the batch for further records."""
        if self._data is None:
            self._data = self._builder.build()
        return self._data


class Publication:
    """The outcome of one published record (Kafka: the future that `send` returns).

    Await it, or call `result()` in a thread, for its RecordMetadata; both raise KafkaError. It may be
    ignored.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: PendingBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.done

    def traced(self, traces: RecordTraces, span: Span) -> None:
        """Ends `span` when the outcome is known."""
        batch = self._batch
        if batch.traces is None:
            batch.traces = traces.of_batch(batch)
            batch.when_done(batch.traces.settled)
        batch.traces.add(self._index, span)
        if batch.done:  # another thread completed it in the meantime
            batch.traces.settled()

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        yield from self._batch.wait()
        return self._metadata()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Blocks until the outcome is known, at most `timeout` seconds. Raises TimeoutError, KafkaError."""
        self._batch.wait_blocking(timeout)
        return self._metadata()

    def _metadata(self) -> RecordMetadata:
        batch = self._batch
        batch.raise_error()
        return RecordMetadata(batch.topic, batch.partition, batch.base_offset + self._index, batch.timestamp)
