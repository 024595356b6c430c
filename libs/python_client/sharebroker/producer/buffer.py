"""Records on their way: batches a partition, one request of a partition under way, retries in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from sharebroker.producer.config import ProducerConfig
from sharebroker.producer.publication import PendingBatch, Publication
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.batch_builder import BatchBuilder, Header
from sharebroker_protocol.records.compression import CODECS
from sharebroker_protocol.records.partitioner import Partitioner

_RECORD_OVERHEAD = 21  # length, timestamp, offset, attributes at their longest


class _Lane:
    """The batches of one partition, oldest first; only the last takes records."""

    __slots__ = ("batches", "busy", "open")

    def __init__(self) -> None:
        self.batches: deque[PendingBatch] = deque()
        self.open: PendingBatch | None = None
        self.busy = False


class _Topic:
    __slots__ = ("lanes", "partitioner")

    def __init__(self, partitioner: Partitioner) -> None:
        self.partitioner = partitioner
        self.lanes: list[_Lane] = []


class RecordBuffer:
    """Filled by the application's threads, emptied by the sender. `now` is the producer's clock in seconds.

    `wake` is called, from the thread that appends, when there is something to take (once until taken).
    """

    def __init__(
        self, config: ProducerConfig, choose: Callable[[int], int], wake: Callable[[], None]
    ) -> None:
        self._config = config
        self._codec = CODECS[config.compression_type]
        self._choose = choose
        self._wake = wake
        self._woken = False
        self._lock = threading.Lock()
        self._topics: dict[str, _Topic] = {}
        self._waiting: set[_Lane] = set()  # with batches, and not busy
        self._linger = config.linger_ms / 1000
        self.size = 0
        self.unsettled: set[PendingBatch] = set()

    def know(self, topic: str, partitions: int) -> None:
        """The topic has this many partitions; more than before, as they never become fewer."""
        with self._lock:
            known = self._topics.setdefault(topic, _Topic(Partitioner(self._config.batch_size, self._choose)))
            known.lanes += [_Lane() for _ in range(partitions - len(known.lanes))]

    @property
    def full(self) -> bool:
        """Whether records should wait outside."""
        return self.size >= self._config.buffer_memory

    def append(
        self,
        topic: str,
        partition: int | None,
        record: tuple[int, bytes | None, bytes | None, Sequence[Header]],
        now: float,
    ) -> Publication:
        """Add a record (timestamp in ms, key, value, headers) of a known topic.

        Raises MESSAGE_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION.
        """
        timestamp, key, value, headers = record
        size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
        if size > self._config.max_request_size:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE, f"A record of {size} bytes is above max_request_size."
            )
        with self._lock:
            of = self._topics[topic]
            if partition is None:
                partition = of.partitioner.partition(key, size, len(of.lanes))
            elif not 0 <= partition < len(of.lanes):
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} has no partition {partition}."
                )
            lane = of.lanes[partition]
            batch = lane.open
            if batch is None or not batch.builder.append(timestamp, key, value, headers):
                batch = self._begin(topic, partition, lane, now)
                batch.builder.append(timestamp, key, value, headers)
            batch.size += size
            self.size += size
            publication = Publication(batch, batch.builder.count - 1)
        if not self._woken and not lane.busy:
            self._woken = True
            self._wake()
        return publication

    def _begin(self, topic: str, partition: int, lane: _Lane, now: float) -> PendingBatch:
        batch = PendingBatch(topic, partition, BatchBuilder(self._codec, self._config.batch_size), now)
        lane.batches.append(batch)
        lane.open = batch
        self.unsettled.add(batch)
        if not lane.busy:
            self._waiting.add(lane)
        return batch

    def take(self, now: float, *, flush: bool) -> list[list[PendingBatch]]:
        """The batches of the next request, partition by partition; each partition is busy until settled."""
        taken = []
        with self._lock:
            self._woken = False
            for lane in list(self._waiting):
                batches = self._ready(lane, now, flush)
                if batches:
                    lane.busy = True
                    self._waiting.discard(lane)
                    taken.append(batches)
        return taken

    def _ready(self, lane: _Lane, now: float, flush: bool) -> list[PendingBatch]:
        """Batches that may go, from the oldest on; the open one is closed when it goes."""
        ready: list[PendingBatch] = []
        room = self._config.max_request_size
        while lane.batches:
            batch = lane.batches[0]
            lingers = batch is lane.open and not flush and now < batch.created + self._linger
            if lingers or now < batch.not_before or (ready and batch.size > room):
                break
            if batch is lane.open:
                lane.open = None
            room -= batch.size
            ready.append(lane.batches.popleft())
        return ready

    def next_deadline(self) -> float | None:
        """When a waiting batch will have lingered, or backed off, for long enough."""
        with self._lock:
            return min((self._due(lane) for lane in self._waiting), default=None)

    def _due(self, lane: _Lane) -> float:
        batch = lane.batches[0]
        return max(batch.not_before, batch.created + self._linger if batch is lane.open else batch.created)

    def settle(self, batches: list[PendingBatch], base_offset: int, timestamp: int) -> None:
        """A partition's batches were appended, the first at `base_offset`."""
        for batch in batches:
            batch.base_offset = base_offset
            batch.timestamp = timestamp
            base_offset += batch.builder.count
            self._done(batch, None)
        self._free(batches)

    def expire(self, now: float) -> bool:
        """Fail what is older than the delivery timeout, on its way or not; whether there was any."""
        with self._lock:
            late = [batch for batch in self.unsettled if now >= self._deadline(batch)]
            for batch in late:
                lane = self._lane(batch)
                if batch in lane.batches:
                    lane.batches.remove(batch)
                if batch is lane.open:
                    lane.open = None
                if not lane.batches:
                    self._waiting.discard(lane)
        for batch in late:
            text = f"The record was not confirmed within {self._config.delivery_timeout_ms} ms."
            self._done(batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
        return bool(late)

    def _deadline(self, batch: PendingBatch) -> float:
        return batch.created + self._config.delivery_timeout_ms / 1000

    def fail(self, batches: list[PendingBatch], error: KafkaError, now: float) -> None:
        """A partition's batches were refused: for good, or to be tried again a little later, in order."""
        lane = self._lane(batches[0])
        again = []
        for batch in (batch for batch in batches if not batch.done):
            if error.retriable and now < self._deadline(batch):
                wait = min(self._config.retry_backoff_ms << batch.tries, self._config.retry_backoff_max_ms)
                batch.not_before = now + wait / 1000
                batch.tries = min(batch.tries + 1, 16)
                again.append(batch)
            else:
                self._done(batch, error)
        with self._lock:
            lane.batches.extendleft(reversed(again))
        self._free(batches)

    def _free(self, batches: list[PendingBatch]) -> None:
        """The partition may send again."""
        with self._lock:
            lane = self._lane(batches[0])
            lane.busy = False
            if lane.batches:
                self._waiting.add(lane)

    def _done(self, batch: PendingBatch, error: KafkaError | None) -> None:
        with self._lock:
            if batch not in self.unsettled:
                return  # it had expired
            self.size -= batch.size
            self.unsettled.discard(batch)
        batch.settle(error)

    def _lane(self, batch: PendingBatch) -> _Lane:
        return self._topics[batch.topic].lanes[batch.partition]

    def abandon(self, error: KafkaError) -> None:
        """Fail all that is left."""
        for batch in list(self.unsettled):
            self._done(batch, error)
