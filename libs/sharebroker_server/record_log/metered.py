"""A store of record logs that counts what is appended to it and how long the answers take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.segments import Segment
from sharebroker_server.record_log.port import NO_NOTES, RecordStore
from sharebroker_server.telemetry.appends import Appends

KIND: Final = "partition"


class MeteredRecordStore:
    """The store it is given, with every append counted."""

    def __init__(self, store: RecordStore, appends: Appends) -> None:
        self._store = store
        self._appended = appends.of(KIND)
        self.read = store.read
        self.bounds = store.bounds
        self.segments = store.segments
        self.notes = store.notes
        self.trim = store.trim
        self.partitions = store.partitions
        self.delete = store.delete

    async def append(
        self,
        partition: str,
        epoch: int,
        batches: Sequence[StoredBatch],
        segments: Sequence[Segment] = (),
        notes: Mapping[str, bytes] = NO_NOTES,
    ) -> None:
        """As the port says."""
        size = sum([len(batch.data) for batch in batches])
        with self._appended.timed(len(batches), size):
            await self._store.append(partition, epoch, batches, segments, notes)
