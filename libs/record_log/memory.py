"""The record store's memory twin: same promises, and faults on demand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from libs.record_log.core.batch import StoredBatch
from libs.record_log.core.segments import Segment
from libs.record_log.core.tail import take
from libs.record_log.port import Bounds
from libs.stream_log.memory import Fault
from libs.stream_log.port import LogFenced, LogNotWritten, LogOutcomeUnknown, LogOutOfOrder, LogUnavailable


@dataclass(slots=True)
class _Partition:
    batches: list[StoredBatch] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    log_start: int = 0
    log_end: int = 0


class MemoryRecordStore:
    """Batches in memory. `appends` lists (partition, batches) of every append that was written.

    `epoch_of` gives the epoch of a partition's lease (`MemoryLeaseStore.epoch_of`); without it the highest
    epoch seen, or set by `fence`, counts. `away = True` makes every call fail.
    """

    def __init__(self, epoch_of: Callable[[str], int] | None = None) -> None:
        self.away = False
        self.appends: list[tuple[str, int]] = []
        self._epoch_of = epoch_of
        self._fences: dict[str, int] = {}
        self._partitions: dict[str, _Partition] = {}
        self._faults: deque[Fault] = deque()
        self._open = asyncio.Event()
        self._open.set()

    def fail_next_append(self, fault: Fault) -> None:
        """Queue a fault: each append uses up one."""
        self._faults.append(fault)

    def hold(self) -> None:
        """Keep appends waiting until `release`, as a slow disk would."""
        self._open.clear()

    def release(self) -> None:
        """Let waiting appends go on."""
        self._open.set()

    def fence(self, partition: str, epoch: int) -> None:
        """Refuse writes of epochs below `epoch`, as if another owner had claimed the partition."""
        self._fences[partition] = max(epoch, self._fences.get(partition, 0))

    async def append(
        self,
        partition: str,
        epoch: int,
        batches: Sequence[StoredBatch],
        segments: Sequence[Segment] = (),
    ) -> None:
        """As the port says; a queued fault comes first."""
        await self._open.wait()
        fault = self._faults.popleft() if self._faults else None
        if fault is Fault.NOT_WRITTEN:
            raise LogNotWritten("fault on demand")
        if fault is Fault.FENCED:
            self.fence(partition, epoch + 1)
            raise LogFenced(partition)
        if fault is Fault.LOST_UNKNOWN:
            raise LogOutcomeUnknown("fault on demand")
        self._append(partition, epoch, batches, segments)
        if fault is Fault.DONE_UNKNOWN:
            raise LogOutcomeUnknown("fault on demand")

    async def read(self, partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        """As the port says."""
        batches = [batch for batch in self._readable(partition).batches if batch.last_offset >= offset]
        return take(batches, 0, max_bytes)

    async def bounds(self, partition: str) -> Bounds:
        """As the port says."""
        log = self._readable(partition)
        return Bounds(log.log_start, log.log_end)

    async def segments(self, partition: str) -> list[Segment]:
        """As the port says."""
        log = self._readable(partition)
        return [segment for segment in log.segments if segment.end_offset > log.log_start]

    async def trim(self, partition: str, epoch: int, log_start_offset: int) -> None:
        """As the port says."""
        self._check_writable(partition, epoch)
        log = self._partition(partition)
        log.log_start = max(log_start_offset, log.log_start)
        log.batches = [batch for batch in log.batches if batch.last_offset >= log.log_start]
        log.segments = [segment for segment in log.segments if segment.end_offset > log.log_start]

    async def partitions(self) -> set[str]:
        """As the port says."""
        if self.away:
            raise LogUnavailable("away on demand")
        return set(self._partitions)

    async def delete(self, partition: str) -> None:
        """As the port says."""
        if self.away:
            raise LogNotWritten("away on demand")
        self._partitions.pop(partition, None)

    def _append(
        self, partition: str, epoch: int, batches: Sequence[StoredBatch], segments: Sequence[Segment]
    ) -> None:
        self._check_writable(partition, epoch)
        log = self._partition(partition)
        if batches[0].base_offset < log.log_end:
            raise LogOutOfOrder(f"{partition} ends at {log.log_end}, above {batches[0].base_offset}")
        log.batches.extend(batches)
        log.segments.extend(segments)
        log.log_end = batches[-1].last_offset + 1
        self.appends.append((partition, len(batches)))

    def _check_writable(self, partition: str, epoch: int) -> None:
        if self.away:
            raise LogNotWritten("away on demand")
        if self._epoch_of is None:
            current = self._fences[partition] = max(epoch, self._fences.get(partition, 0))
        else:
            current = max(self._epoch_of(partition), self._fences.get(partition, 0))
        if epoch != current:
            raise LogFenced(f"{partition}: epoch {epoch}, the lease has {current}")

    def _readable(self, partition: str) -> _Partition:
        if self.away:
            raise LogUnavailable("away on demand")
        return self._partition(partition)

    def _partition(self, partition: str) -> _Partition:
        return self._partitions.setdefault(partition, _Partition())
