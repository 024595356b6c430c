"""The export of one partition's log: its batches and its snapshots as of one moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from sharebroker_server.broker.archive.folder import ArchiveFolder
from sharebroker_server.broker.archive.stores import Stores
from sharebroker_server.broker.core.archive_contents import (
    ArchivedPartition,
    ArchiveError,
    ExportJournal,
    RecordsFile,
)
from sharebroker_server.broker.core.archive_log import archived_snapshots
from sharebroker_server.leases import names
from sharebroker_server.record_log.core.batch import StoredBatch

FILE_BYTES: Final = 8 << 20
"""The size of the batches in one file. A repeated export repeats at most one file of each partition."""

READ_BYTES: Final = 2 << 20

_WITHIN: Final = 10.0


async def log_length(stores: Stores, topic_id: str, partition: int) -> int:
    """Returns the number of offsets of a log. Raises LogUnavailable."""
    bounds = await stores.records.bounds(names.partition(topic_id, partition))
    return bounds.log_end_offset - bounds.log_start_offset


class LogExport:
    """Exports logs into a folder. `advance` receives the number of offsets of each step."""

    def __init__(
        self, stores: Stores, folder: ArchiveFolder, journal: ExportJournal, advance: Callable[[int], None]
    ) -> None:
        self._stores = stores
        self._folder = folder
        self._journal = journal
        self._advance = advance

    async def run(self, topic_id: str, partition: int) -> ArchivedPartition:
        """Exports a log, or what an earlier export left out. Raises ArchiveError, LogUnavailable, OSError."""
        done = self._journal.partitions.get((topic_id, partition))
        if done is not None and len(self._folder.intact(done.files)) == len(done.files):
            self._advance(done.log_end_offset - done.log_start_offset)
            return done
        resource = names.partition(topic_id, partition)
        bounds, snapshots = await self._stores.records.view(resource)
        files = [*self._folder.intact(self._journal.files(topic_id, partition))]
        begin, end = bounds.log_start_offset, bounds.log_end_offset
        offset = max(begin, files[-1].end_offset if files else 0)
        if offset > end:
            raise ArchiveError(f"{resource} ends at {end}, before the archived records. Remove the folder.")
        self._advance(offset - begin)
        files += await self._records(topic_id, partition, offset, end)
        if files and files[-1].end_offset < end:
            # Retention has deleted all records up to the end: an import writes a log without batches.
            begin, files = end, []
        exported = ArchivedPartition(
            topic_id,
            partition,
            await self._leader_epoch(resource),
            begin,
            end,
            archived_snapshots(snapshots),
            files,
        )
        self._folder.add(exported)
        return exported

    async def _records(self, topic_id: str, partition: int, offset: int, end: int) -> list[RecordsFile]:
        """Writes the batches with offsets in [offset, end) into files."""
        resource, files = names.partition(topic_id, partition), list[RecordsFile]()
        pending: list[StoredBatch] = []
        size = 0
        while offset < end:
            read = await self._stores.records.read(resource, offset, READ_BYTES)
            batches = [batch for batch in read if batch.base_offset < end]
            pending += batches
            size += sum([len(batch.data) for batch in batches])
            reached = batches[-1].last_offset + 1 if batches else end
            if pending and (size >= FILE_BYTES or reached >= end):
                file = await asyncio.to_thread(self._folder.write_records, topic_id, partition, pending)
                self._folder.add(file)
                files.append(file)
                pending, size = [], 0
            self._advance(reached - offset)
            offset = reached
        return files

    async def _leader_epoch(self, resource: str) -> int:
        """Returns the epoch of the log's lease, whether or not it is free."""
        key = self._stores.keys.lease(resource)
        return int(await self._stores.link.call("HGET", key, "epoch", timeout=_WITHIN) or 0)
