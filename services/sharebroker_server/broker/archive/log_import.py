"""The import of one partition's log into a topic that does not exist yet."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from sharebroker_protocol.clock import now
from sharebroker_server.broker.archive.claimed_leases import ClaimedLeases
from sharebroker_server.broker.archive.folder import ArchiveFolder
from sharebroker_server.broker.archive.stores import Stores
from sharebroker_server.broker.core.archive_contents import MANIFEST, ArchivedPartition, ArchiveError
from sharebroker_server.broker.core.archive_log import EndedLog, end_log
from sharebroker_server.broker.core.archive_plan import ImportPlan, new_notes
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.log_state import MemoryLimits, SegmentIndex

WRITE_BYTES: Final = 1 << 20
WRITE_BATCHES: Final = 500


async def missing_bytes(stores: Stores, plan: ImportPlan, partitions: Iterable[ArchivedPartition]) -> int:
    """Returns the size of the batches that an earlier import has not written. Raises LogUnavailable."""
    size = 0
    for partition in partitions:
        end = await stores.records.log_end(plan.resource(partition))
        size += sum(file.raw_size for file in partition.files if file.end_offset > end)
    return size


class LogImport:
    """Imports logs from a folder. `advance` receives the number of offsets of each step."""

    def __init__(
        self,
        stores: Stores,
        leases: ClaimedLeases,
        folder: ArchiveFolder,
        archive_id: str,
        plan: ImportPlan,
        advance: Callable[[int], None],
    ) -> None:
        self._stores = stores
        self._leases = leases
        self._folder = folder
        self._archive_id = archive_id
        self._plan = plan
        self._advance = advance

    async def run(self, archived: ArchivedPartition) -> None:
        """Imports a log whose lease is claimed, or what an earlier import left out.

        Raises ArchiveError, LogError, RedisError, OSError.
        """
        resource = self._plan.resource(archived)
        epoch, ending = self._leases.epoch(resource), self._ending(archived)
        records = self._stores.records
        if not await records.begin_import(resource, epoch, self._archive_id):
            raise ArchiveError(f"Redis has records of {resource}, and the catalog has no such topic.")
        writer = LogWriter(self._stores, resource, epoch)
        await writer.start()
        for file in archived.files:
            for batch in await asyncio.to_thread(self._folder.read_records, file):
                await writer.write(batch)
            self._advance(file.end_offset - file.first_offset)
        for marker in ending.markers:
            await writer.write(marker)
        await writer.finish(ending.snapshots)
        await records.trim(resource, epoch, archived.log_start_offset)
        if not archived.files:
            await records.extend(resource, epoch, archived.log_end_offset)

    def _ending(self, archived: ArchivedPartition) -> EndedLog:
        """Returns how the log ends. Raises ArchiveError."""
        notes = new_notes(archived.notes, self._plan.topics)
        try:
            return end_log(notes, archived.log_end_offset, int(now() * 1000))
        except (ValueError, IndexError, struct.error) as error:
            raise ArchiveError(
                f"{MANIFEST} of the archive has invalid notes of partition {archived.partition} "
                f"of topic {archived.topic_id}: {error}."
            ) from error


class LogWriter:
    """Appends batches in the order of their offsets; leaves out those that the log has already."""

    def __init__(self, stores: Stores, resource: str, epoch: int) -> None:
        self._records = stores.records
        self._resource = resource
        self._epoch = epoch
        limits = MemoryLimits()
        self._index = SegmentIndex((), limits.segment_bytes, limits.segment_ms)
        self._indexed = 0
        self._end = 0
        self._pending: list[StoredBatch] = []
        self._size = 0

    async def start(self) -> None:
        """Reads where the log ends. Raises LogUnavailable."""
        bounds = await self._records.bounds(self._resource)
        self._end = bounds.log_end_offset
        segments = await self._records.segments(self._resource)
        # An earlier import may have trimmed rows, and Redis does not take them again.
        self._indexed = segments[-1].end_offset if segments else bounds.log_start_offset

    async def write(self, batch: StoredBatch) -> None:
        """Adds a batch; writes when there are many. Raises LogError."""
        # All batches are counted in the index, so that its rows are the same after an interruption.
        self._index.add(batch, 0)
        if batch.base_offset < self._end:
            return
        self._pending.append(batch)
        self._size += len(batch.data)
        if self._size >= WRITE_BYTES or len(self._pending) >= WRITE_BATCHES:
            await self._append({})

    async def finish(self, snapshots: Mapping[str, bytes]) -> None:
        """Writes the remaining batches together with the snapshots. Raises LogError."""
        await self._append(snapshots)

    async def _append(self, snapshots: Mapping[str, bytes]) -> None:
        rows = [row for row in self._index.unsaved if row.end_offset > self._indexed]
        batches: Sequence[StoredBatch] = self._pending
        if batches or rows or snapshots:
            await self._records.append(self._resource, self._epoch, batches, rows, snapshots)
        self._pending, self._size = [], 0
        if rows:
            self._indexed = rows[-1].end_offset
            self._index.saved(self._indexed)
