"""The stored notes about the leader epochs of a partition, written before readers see the records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from sharebroker_server.record_log.lifecycle import not_leader, storage_error
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.stream_log.port import LogError, LogFenced
from sharebroker_server.upstream_log.core.epochs import NAME, EpochHistory, EpochStart


class EpochNotes:
    """`history` is what is stored. Each write carries the epoch of our lease of the partition."""

    def __init__(self, store: RecordStore, partition: str) -> None:
        self.history = EpochHistory()
        self._store = store
        self._partition = partition
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Reads the notes.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR if the store cannot be read, or has notes of a later version.
        """
        try:
            self.history = EpochHistory.load(await self._store.snapshots(self._partition))
        except (LogError, ValueError) as error:
            raise storage_error(error) from error

    async def read(self, starts: Iterable[EpochStart], lease_epoch: int) -> None:
        """Notes the leader epochs of records that readers will see.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        starts = list(starts)
        if self.history.with_read(starts) is self.history:
            return
        async with self._writing:
            history = self.history.with_read(starts)
            if history is not self.history:
                await self._write(history, lease_epoch)

    async def truncated(self, offset: int, lease_epoch: int) -> None:
        """Notes that the log lost its records from an offset on.

        Raises:
            KafkaError: as `read`.
        """
        async with self._writing:
            await self._write(self.history.truncated(offset, lease_epoch), lease_epoch)

    async def recheck(self, lease_epoch: int) -> None:
        """Stores the notes again if the store lost them.

        Raises:
            LogUnavailable: the store cannot be read or written.
        """
        # Notes that cannot be read or replaced are those of the next leader.
        with suppress(LogFenced, ValueError):
            await self._recheck(lease_epoch)

    async def _recheck(self, lease_epoch: int) -> None:
        async with self._writing:
            if self.history != EpochHistory.load(await self._store.snapshots(self._partition)):
                await self._append(self.history, lease_epoch)

    async def _write(self, history: EpochHistory, lease_epoch: int) -> None:
        try:
            await self._append(history, lease_epoch)
        except LogFenced as error:
            raise not_leader(self._partition) from error
        except LogError as error:
            raise storage_error(error) from error
        self.history = history

    async def _append(self, history: EpochHistory, lease_epoch: int) -> None:
        notes = {NAME: history.packed()}
        await self._store.append(self._partition, lease_epoch, (), snapshots=notes, beyond_limit=True)
