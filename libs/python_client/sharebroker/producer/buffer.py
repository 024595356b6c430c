"""Records that wait to be sent: one queue of batches per partition, and the outcome of each record.

At most one request per partition is in flight, so that retries keep the order of records. The batches of a
failed request are sent again together and unchanged: the leader recognises a request by their sequence
numbers.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from sharebroker.producer.config import ProducerConfig
from sharebroker.producer.sequences import ProducerSequences, SequenceStart
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.outcome import Outcome
from sharebroker_protocol.records.batches import CODECS, NO_PRODUCER, BatchBuilder, Header, with_producer
from sharebroker_protocol.records.partitioner import Partitioner
from sharebroker_protocol.records.record import partitioning_key

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from sharebroker_protocol.tracing.tracer import BatchTraces, RecordTraces


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
        "_built_for",
        "_data",
        "attempts",
        "base_offset",
        "builder",
        "created",
        "not_before",
        "partition",
        "sent_at",
        "sequence",
        "size",
        "timestamp",
        "topic",
        "traces",
        "uncertain",
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
        self.uncertain = False
        """Whether an attempt may have been written although it has no response."""
        self.base_offset = -1
        self.timestamp = -1
        self.traces: BatchTraces | None = None
        self.builder = builder
        """Collects records until `data` is read."""
        self.sequence: SequenceStart | None = None
        """The number of the first record; None until the batch is sent by an idempotent producer."""
        self._data: bytes | None = None
        self._built_for: tuple[int, int, int] = NO_PRODUCER

    @property
    def data(self) -> bytes:
        """The encoded batch. Reading it closes the batch for further records."""
        sequence = self.sequence or NO_PRODUCER
        if self._data is None:
            self._data, self._built_for = self.builder.build(sequence), sequence
        return self._data if sequence == self._built_for else with_producer(self._data, *sequence)


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
            batch.when_done(batch.traces.end)
        batch.traces.add(self._index, span)
        if batch.done:  # another thread completed it in the meantime
            batch.traces.end()

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


RecordFields = tuple[bytes | None, bytes | None, Sequence[Header]]
"""Key, value and headers of a record."""

_MAX_REQUEST_BYTES: Final = 15 * 1024 * 1024
"""Bytes of records in a request of several partitions; the server accepts requests of 16 MiB."""
_NOT_WRITTEN: Final = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Errors in responses after which no log has the request."""

_RECORD_OVERHEAD = 21  # longest encoding of length, timestamp, offset and attributes


class _PartitionQueue:
    """The batches of one partition, oldest first; records are added to the last one only.

    `again` are those of a request that failed; they precede the others.
    """

    __slots__ = ("again", "batches", "busy", "open")

    def __init__(self) -> None:
        self.again: list[PendingBatch] = []
        self.batches: deque[PendingBatch] = deque()
        self.open: PendingBatch | None = None
        self.busy = False


class _Topic:
    __slots__ = ("partitioner", "queues")

    def __init__(self, partitioner: Partitioner) -> None:
        self.partitioner = partitioner
        self.queues: list[_PartitionQueue] = []


class RecordBuffer:
    """Filled by the application's threads, emptied by the sender.

    `now` is the producer's clock in seconds. `wake` is called in the appending thread when there are batches
    to send, once per `drain`.
    """

    def __init__(
        self,
        config: ProducerConfig,
        wake: Callable[[], None],
        choose: Callable[[int], int] = random.randrange,
    ) -> None:
        self._config = config
        self._codec = CODECS[config.compression_type]
        self._choose = choose
        self._wake = wake
        self._woken = False
        self._lock = threading.Lock()
        self._topics: dict[str, _Topic] = {}
        self._waiting: set[_PartitionQueue] = set()  # with batches and without a request in flight
        self._linger = config.linger_ms / 1000
        self.size = 0
        self.unconfirmed: set[PendingBatch] = set()
        self.sequences = ProducerSequences() if config.enable_idempotence else None
        """The sequence numbers of an idempotent producer; used by the sender only."""

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Stores the partition count of a topic; it never decreases."""
        with self._lock:
            topic_state = self._topics.setdefault(
                topic, _Topic(Partitioner(self._config.batch_size, self._choose))
            )
            topic_state.queues += [_PartitionQueue() for _ in range(partitions - len(topic_state.queues))]

    @property
    def full(self) -> bool:
        """Whether `buffer_memory` is used up, so that callers should wait."""
        return self.size >= self._config.buffer_memory

    def append(
        self,
        topic: str,
        partition: int | None,
        record: tuple[int, bytes | None, bytes | None, Sequence[Header]],
        now: float,
    ) -> Publication:
        """Adds a record (timestamp in ms, key, value, headers) to a topic whose partitions are topic_state.

        Raises KafkaError MESSAGE_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION.
        """
        timestamp, key, value, headers = record
        size = _RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
        if size > self._config.max_request_size:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"A record of {size} bytes exceeds max_request_size, {self._config.max_request_size} bytes.",
            )
        with self._lock:
            topic_state = self._topics[topic]
            if partition is None:
                chosen_by = partitioning_key(key, headers)
                partition = topic_state.partitioner.partition(chosen_by, size, len(topic_state.queues))
            elif not 0 <= partition < len(topic_state.queues):
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} has no partition {partition}."
                )
            queue = topic_state.queues[partition]
            batch = queue.open
            if batch is None or not batch.builder.append(timestamp, key, value, headers):
                batch = self._begin(topic, partition, queue, now)
                batch.builder.append(timestamp, key, value, headers)
            batch.size += size
            self.size += size
            publication = Publication(batch, batch.builder.count - 1)
        if not self._woken and not queue.busy:
            self._woken = True
            self._wake()
        return publication

    def _begin(self, topic: str, partition: int, queue: _PartitionQueue, now: float) -> PendingBatch:
        batch = PendingBatch(topic, partition, BatchBuilder(self._codec, self._config.batch_size), now)
        queue.batches.append(batch)
        queue.open = batch
        self.unconfirmed.add(batch)
        if not queue.busy:
            self._waiting.add(queue)
        return batch

    def drain(self, now: float, *, flush: bool) -> list[list[PendingBatch]]:
        """Returns the batches of the next request by partition; these partitions are then busy."""
        ready: list[list[PendingBatch]] = []
        remaining = _MAX_REQUEST_BYTES
        with self._lock:
            self._woken = False
            for queue in list(self._waiting):
                room = min(remaining, self._config.max_request_size)
                batches = self._ready(queue, now, flush, room, must_fit=bool(ready))
                if batches:
                    queue.busy = True
                    self._waiting.discard(queue)
                    ready.append(batches)
                    remaining -= sum(batch.size for batch in batches)
        return ready

    def _ready(
        self, queue: _PartitionQueue, now: float, flush: bool, room: int, *, must_fit: bool
    ) -> list[PendingBatch]:
        """Removes and returns batches that are due, oldest first; an open batch is closed first.

        They have at most `room` bytes; without `must_fit` the first batch, or a request that is sent again,
        may have more.
        """
        if queue.again:
            too_large = must_fit and sum(batch.size for batch in queue.again) > room
            if too_large or now < queue.again[0].not_before:
                return []
            again, queue.again = queue.again, []
            return again
        ready: list[PendingBatch] = []
        while queue.batches:
            batch = queue.batches[0]
            lingers = batch is queue.open and not flush and now < batch.created + self._linger
            too_large = batch.size > room and (must_fit or bool(ready))
            if lingers or now < batch.not_before or too_large:
                break
            if batch is queue.open:
                queue.open = None
            room -= batch.size
            ready.append(queue.batches.popleft())
        return ready

    def next_deadline(self) -> float | None:
        """Returns the time at which the next waiting batch is due, or None."""
        with self._lock:
            return min((self._due_at(queue) for queue in self._waiting), default=None)

    def _due_at(self, queue: _PartitionQueue) -> float:
        batch = queue.again[0] if queue.again else queue.batches[0]
        return max(batch.not_before, batch.created + self._linger if batch is queue.open else batch.created)

    def number(self, batches: list[PendingBatch], now: float) -> None:
        """Gives the batches of a request their sequence numbers, unless an earlier attempt did."""
        if self.sequences is not None and batches[0].sequence is None:
            for batch in batches:
                batch.sequence = self.sequences.take(_partition_of(batch), batch.builder.count, now)

    def complete(
        self, batches: list[PendingBatch], base_offset: int, timestamp: int, topic_id: str = ""
    ) -> None:
        """Completes a partition's batches, which were appended from `base_offset` on."""
        if self.sequences is not None:
            self.sequences.written(_partition_of(batches[0]), topic_id)
        for batch in batches:
            batch.base_offset = base_offset
            batch.timestamp = timestamp
            base_offset += batch.builder.count
            self._finish(batch, None)
        self._release_partition(batches)

    def expire(self, now: float) -> bool:
        """Fails batches older than the delivery timeout, in flight or not; returns whether there were any."""
        with self._lock:
            expired = [batch for batch in self.unconfirmed if now >= self._deadline(batch)]
            for batch in expired:
                queue = self._queue_of(batch)
                if batch in queue.batches:
                    queue.batches.remove(batch)
                if batch is queue.open:
                    queue.open = None
        for batch in expired:
            text = f"The record was not confirmed within {self._config.delivery_timeout_ms} ms."
            self._finish(batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
        with self._lock:
            for queue in {self._queue_of(batch) for batch in expired}:
                if queue.again and all(batch.done for batch in queue.again):
                    self._give_up(queue.again)
                    queue.again = []
                if not (queue.again or queue.batches):
                    self._waiting.discard(queue)
        return bool(expired)

    def _deadline(self, batch: PendingBatch) -> float:
        return batch.created + self._config.delivery_timeout_ms / 1000

    def fail(self, batches: list[PendingBatch], error: KafkaError, now: float, topic_id: str = "") -> None:
        """Fails a partition's batches, or queues them to be sent again if the error is retriable.

        `topic_id` is that of the response. Batches that exceed the delivery timeout fail, but are sent again
        with others of their request.
        """
        missing = self._is_missing(batches, error, topic_id)
        if missing:
            self._give_up(batches)
        for batch in batches:
            batch.uncertain |= error.code not in _NOT_WRITTEN
            if not ((error.retriable or missing) and now < self._deadline(batch)):
                self._finish(batch, error)
            wait = min(self._config.retry_backoff_ms << batch.attempts, self._config.retry_backoff_max_ms)
            batch.not_before = now + wait / 1000
            batch.attempts = min(batch.attempts + 1, 16)
        if all(batch.done for batch in batches):
            self._give_up(batches)
        else:
            with self._lock:
                self._queue_of(batches[0]).again = batches
        self._release_partition(batches)

    def _is_missing(self, batches: list[PendingBatch], error: KafkaError, topic_id: str) -> bool:
        """Returns whether the log has neither the state of the producer nor these batches.

        The leader lost the state, or the topic was created again. An attempt without a response may be in the
        log of the new topic, so the batches keep their numbers then.
        """
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return True
        waits = error.code is ErrorCode.KAFKA_STORAGE_ERROR and not any(each.uncertain for each in batches)
        return (
            waits and self.sequences is not None and self.sequences.moves(_partition_of(batches[0]), topic_id)
        )

    def _give_up(self, batches: list[PendingBatch]) -> None:
        """Starts the partition's sequence numbers again: the log may have these batches or not."""
        if self.sequences is not None and batches[0].sequence is not None:
            self.sequences.restart(_partition_of(batches[0]))
            for batch in batches:
                batch.sequence = None

    def _release_partition(self, batches: list[PendingBatch]) -> None:
        """Marks the partition as no longer busy."""
        with self._lock:
            queue = self._queue_of(batches[0])
            queue.busy = False
            if queue.again or queue.batches:
                self._waiting.add(queue)

    def _finish(self, batch: PendingBatch, error: KafkaError | None) -> None:
        with self._lock:
            if batch not in self.unconfirmed:
                return  # it expired before
            self.size -= batch.size
            self.unconfirmed.discard(batch)
        batch.complete(error)

    def _queue_of(self, batch: PendingBatch) -> _PartitionQueue:
        return self._topics[batch.topic].queues[batch.partition]

    def abandon(self, error: KafkaError) -> None:
        """Fails all batches."""
        for batch in list(self.unconfirmed):
            self._finish(batch, error)


def _partition_of(batch: PendingBatch) -> tuple[str, int]:
    return batch.topic, batch.partition
