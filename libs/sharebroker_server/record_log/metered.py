"""A record store that counts appends and measures their latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.log_state import Segment
from sharebroker_server.record_log.port import NO_SNAPSHOTS, RecordStore
from sharebroker_server.telemetry.process import Appends

KIND: Final = "partition"


class MeteredRecordStore:
    """Delegates to a store and counts each append."""

    def __init__(self, store: RecordStore, appends: Appends) -> None:
        self._store = store
        self._metrics = appends.of(KIND)
        self.read = store.read
        self.bounds = store.bounds
        self.segments = store.segments
        self.snapshots = store.snapshots
        self.trim = store.trim
        self.partitions = store.partitions
        self.delete = store.delete

    async def append(
        self,
        partition: str,
        epoch: int,
        batches: Sequence[StoredBatch],
        segments: Sequence[Segment] = (),
        snapshots: Mapping[str, bytes] = NO_SNAPSHOTS,
    ) -> None:
        """Appends to the store, and counts batches, bytes and latency."""
        size = sum([len(batch.data) for batch in batches])
        with self._metrics.timed(len(batches), size):
            await self._store.append(partition, epoch, batches, segments, snapshots)
