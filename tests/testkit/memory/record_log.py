"""An in-memory record store with the same guarantees, and faults on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from typing_extensions import override

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.log_state import Segment, select_batches
from sharebroker_server.record_log.port import NO_SNAPSHOTS, Bounds, RecordStore
from sharebroker_server.stream_log.port import LogOutOfOrder
from tests.testkit.memory.stream_log import FencedMemory


@dataclass(slots=True)
class _Partition:
    batches: list[StoredBatch] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    snapshots: dict[str, bytes] = field(default_factory=dict)
    log_start: int = 0
    log_end: int = 0


class MemoryRecordStore(FencedMemory, RecordStore):
    """Stores batches in memory. `appends` lists (partition, number of batches) of every append."""

    def __init__(self, epoch_of: Callable[[str], int] | None = None) -> None:
        super().__init__(epoch_of)
        self.appends: list[tuple[str, int]] = []
        self._partitions: dict[str, _Partition] = {}

    @override
    async def append(
        self,
        partition: str,
        epoch: int,
        batches: Sequence[StoredBatch],
        segments: Sequence[Segment] = (),
        snapshots: Mapping[str, bytes] = NO_SNAPSHOTS,
        *,
        beyond_limit: bool = False,
    ) -> None:
        async with self.appending(partition, epoch, beyond_limit=beyond_limit):
            self._append(partition, batches, segments)
            self._partition(partition).snapshots |= snapshots

    @override
    async def read(self, partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        batches = [batch for batch in self._readable(partition).batches if batch.last_offset >= offset]
        return select_batches(batches, 0, max_bytes)

    @override
    async def read_at(self, partition: str, offsets: Sequence[int]) -> list[StoredBatch]:
        batches = self._readable(partition).batches
        following = (next((each for each in batches if each.last_offset >= at), None) for at in offsets)
        found = {batch.base_offset: batch for batch in following if batch is not None}
        return [found[base] for base in sorted(found)]

    @override
    async def bounds(self, partition: str) -> Bounds:
        log = self._readable(partition)
        return Bounds(log.log_start, log.log_end)

    @override
    async def segments(self, partition: str) -> list[Segment]:
        log = self._readable(partition)
        return [segment for segment in log.segments if segment.end_offset > log.log_start]

    @override
    async def snapshots(self, partition: str) -> dict[str, bytes]:
        return dict(self._readable(partition).snapshots)

    @override
    async def trim(
        self, partition: str, epoch: int, log_start_offset: int, deleted_snapshots: Sequence[str] = ()
    ) -> None:
        self.check_writable(partition, epoch)
        log = self._partition(partition)
        log.log_start = max(log_start_offset, log.log_start)
        log.batches = [batch for batch in log.batches if batch.last_offset >= log.log_start]
        log.segments = [segment for segment in log.segments if segment.end_offset > log.log_start]
        for name in deleted_snapshots:
            log.snapshots.pop(name, None)

    @override
    async def partitions(self) -> set[str]:
        self.check_readable()
        return set(self._partitions)

    @override
    async def delete(self, partition: str) -> None:
        self.check_deletable()
        self._partitions.pop(partition, None)

    def _append(self, partition: str, batches: Sequence[StoredBatch], segments: Sequence[Segment]) -> None:
        log = self._partition(partition)
        if not batches:
            return
        if batches[0].base_offset < log.log_end:
            raise LogOutOfOrder(f"{partition} ends at {log.log_end}, above {batches[0].base_offset}")
        log.batches.extend(batches)
        log.segments.extend(segments)
        log.log_end = batches[-1].last_offset + 1
        self.appends.append((partition, len(batches)))

    def _readable(self, partition: str) -> _Partition:
        self.check_readable()
        return self._partition(partition)

    def _partition(self, partition: str) -> _Partition:
        return self._partitions.setdefault(partition, _Partition())
