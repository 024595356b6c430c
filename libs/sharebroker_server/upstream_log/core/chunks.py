"""Record batches as they were fetched: consecutive ones in chunks, which memory keeps until they are old."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.record_batches import whole_batches
from sharebroker_server.record_log.core.batch import StoredBatch, header_of, stored_batches
from sharebroker_server.record_log.core.transactions import commits
from sharebroker_server.record_log.log_reader import Span
from sharebroker_server.upstream_log.core.epochs import EpochStart

Aborted = tuple[int, int]
"""Producer id and first offset of an aborted transaction, as a fetch response lists it."""

_OLD_FORMAT: Final = (
    "The partition has messages of a format before Kafka 0.11. They cannot be read in share groups: "
    "copy them to another topic, or wait until they are deleted."
)


@dataclass(slots=True, eq=False)
class Chunk:
    """The batches of one response, from the offset `start` up to `end`; some offsets may have no batch.

    `aborted` are the spans of batches of aborted transactions, if the response is for read_committed.
    """

    start: int
    end: int
    batches: list[StoredBatch]
    epochs: list[EpochStart]
    transactional: bool = False
    aborted: list[Span] = field(default_factory=list)
    size: int = 0

    def from_offset(self, offset: int) -> Iterator[StoredBatch]:
        """Yields the batches from the one with `offset`, or after it."""
        first = bisect_left(self.batches, offset, key=_last_offset)
        return iter(self.batches[first:])

    def before(self, end: int) -> Chunk:
        """Returns the part up to the offset `end`, between two batches."""
        if self.end <= end:
            return self
        batches = [batch for batch in self.batches if batch.last_offset < end]
        cut = Chunk(self.start, end, batches, self.epochs, self.transactional, self.aborted)
        cut.size = sum(len(batch.data) for batch in batches)
        return cut


def _last_offset(batch: StoredBatch) -> int:
    return batch.last_offset


def chunk_of(records: bytes, offset: int, aborted: Iterable[Aborted] = ()) -> Chunk | None:
    """Returns the whole batches of a response, without those before `offset`; None without one.

    Raises:
        KafkaError: CORRUPT_MESSAGE; UNSUPPORTED_FOR_MESSAGE_FORMAT for message formats before Kafka 0.11.
    """
    try:
        found = list(stored_batches(records[: whole_batches(records)]))
    except KafkaError as error:
        if error.code is ErrorCode.INVALID_RECORD:
            raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, _OLD_FORMAT) from error
        raise
    batches = [batch for batch in found if batch.last_offset >= offset]
    if not batches:
        return None
    start = min(offset, batches[0].base_offset)
    chunk = Chunk(start, batches[-1].last_offset + 1, batches, [])
    walk = _AbortedWalk(aborted)
    for batch in batches:
        header = header_of(batch.data)
        chunk.size += len(batch.data)
        if not chunk.epochs or chunk.epochs[-1].epoch != header.leader_epoch:
            chunk.epochs.append(EpochStart(header.leader_epoch, batch.base_offset))
        if header.transactional:
            chunk.transactional = True
            if walk.is_aborted(batch, header.producer_id):
                chunk.aborted.append((batch.base_offset, batch.last_offset))
    return chunk


class _AbortedWalk:
    """Finds the batches of aborted transactions, from the first batch to the last (Kafka: CompletedFetch)."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._following = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._producers: set[int] = set()

    def is_aborted(self, batch: StoredBatch, producer_id: int) -> bool:
        while self._following and self._following[-1][1] <= batch.last_offset:
            self._producers.add(self._following.pop()[0])
        if not batch.control:
            return producer_id in self._producers
        if not commits(batch):
            self._producers.discard(producer_id)
        return False


class ChunkCache:
    """The chunks of all partitions of a process; the ones that were not used for longest are dropped."""

    def __init__(self, limit: int) -> None:
        self.size = 0
        self._limit = limit
        self._chunks: OrderedDict[Chunk, Chunks] = OrderedDict()

    def added(self, chunk: Chunk, owner: Chunks) -> None:
        """Notes a new chunk; drops the oldest above the limit, but not this one."""
        self._chunks[chunk] = owner
        self.size += chunk.size
        while self.size > self._limit and len(self._chunks) > 1:
            oldest, its_owner = next(iter(self._chunks.items()))
            its_owner.drop(oldest)

    def used(self, chunk: Chunk) -> None:
        """Notes a use."""
        self._chunks.move_to_end(chunk)

    def removed(self, chunk: Chunk) -> None:
        """Notes that the owner dropped a chunk."""
        del self._chunks[chunk]
        self.size -= chunk.size


class Chunks:
    """The chunks of one partition, ascending and disjoint; up to `limit` bytes, but at least one."""

    def __init__(self, cache: ChunkCache, limit: int) -> None:
        self.size = 0
        self._cache = cache
        self._limit = limit
        self._chunks: list[Chunk] = []
        self._by_use: OrderedDict[Chunk, None] = OrderedDict()

    def add(self, chunk: Chunk) -> None:
        """Adds a chunk, without offsets that others have."""
        known = self.find(chunk.start)
        if known is not None:
            return
        index = bisect_right(self._chunks, chunk.start, key=_start)
        if index < len(self._chunks):
            chunk = chunk.before(self._chunks[index].start)
        if not chunk.batches:
            return
        self._chunks.insert(index, chunk)
        self._by_use[chunk] = None
        self.size += chunk.size
        while self.size > self._limit and len(self._chunks) > 1:
            self.drop(next(iter(self._by_use)))
        self._cache.added(chunk, self)

    def find(self, offset: int) -> Chunk | None:
        """Returns the chunk with an offset."""
        index = bisect_right(self._chunks, offset, key=_start) - 1
        if index < 0 or self._chunks[index].end <= offset:
            return None
        return self._chunks[index]

    def read(self, offset: int, max_bytes: int, *, plain: bool = False) -> list[StoredBatch] | None:
        """Returns consecutive batches from `offset` on, at least one; None if they are not here.

        With `plain`, only chunks without transactions count.
        """
        found: list[StoredBatch] = []
        size = 0
        while (chunk := self.find(offset)) is not None and not (plain and chunk.transactional):
            for index, batch in enumerate(chunk.from_offset(offset)):
                size += len(batch.data)
                if found and size > max_bytes:
                    return found
                found.append(batch)
                if not index:
                    self._by_use.move_to_end(chunk)
                    self._cache.used(chunk)
            offset = chunk.end
        return found or None

    def aborted_in(self, first: int, last: int) -> list[Span]:
        """Returns the spans of aborted batches between two offsets, as far as their chunks are here."""
        return [
            span
            for chunk in self._chunks
            if chunk.start <= last and first < chunk.end
            for span in chunk.aborted
            if span[0] <= last and first <= span[1]
        ]

    def drop(self, chunk: Chunk) -> None:
        """Drops a chunk."""
        self._chunks.remove(chunk)
        del self._by_use[chunk]
        self.size -= chunk.size
        self._cache.removed(chunk)

    def drop_outside(self, start: int, end: int) -> None:
        """Drops the chunks with offsets from `end` on, and those that end before `start`."""
        for chunk in [each for each in self._chunks if each.end > end or each.end <= start]:
            self.drop(chunk)

    def clear(self) -> None:
        """Drops all chunks."""
        for chunk in [*self._chunks]:
            self.drop(chunk)


class UnreadChunks:
    """What was fetched ahead of the readers: the end and the size of each chunk, ascending."""

    def __init__(self) -> None:
        self.size = 0
        self._chunks: deque[tuple[int, int]] = deque()

    def add(self, chunk: Chunk) -> None:
        """Adds a chunk behind the others."""
        self._chunks.append((chunk.end, chunk.size))
        self.size += chunk.size

    def read_to(self, end: int) -> bool:
        """Removes the chunks up to the offset `end`, which readers have; returns whether there was any."""
        before = self.size
        while self._chunks and self._chunks[0][0] <= end:
            self.size -= self._chunks.popleft()[1]
        return self.size < before


def _start(chunk: Chunk) -> int:
    return chunk.start
