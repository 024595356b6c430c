"""The cluster into which an import writes: its leases, its groups, and the logs of its coordinators.

Its servers may run. They hand over their coordinators when the import is about to write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from sharebroker_server.broker.archive.claimed_leases import ClaimedLeases
from sharebroker_server.broker.archive.codec import CATALOG, GROUPS, SHARE_STATE
from sharebroker_server.broker.archive.stored_state import (
    checked_shards,
    read_catalog,
    read_groups,
)
from sharebroker_server.broker.archive.stores import Stores, open_to_write
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.core.archive_plan import GroupsByShard, ImportPlan
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.coordinator_runtime.host import shard_of
from sharebroker_server.leases import names
from sharebroker_server.redis_link.memory import MemorySample

WRITE_RECORDS: Final = 1_000
"""Records that are appended to the log of a shard at once."""

_WITHIN: Final = 10.0
_OVERHEAD: Final = 1.2
"""Bytes of memory for each byte of record batches, roughly."""


class ImportTarget:
    """A cluster, which may serve, as this process reads and writes it."""

    def __init__(self, stores: Stores, settings: ServeSettings) -> None:
        self.stores = stores
        self._config = settings.config
        self.leases = ClaimedLeases(stores.leases, settings.config.broker_session_timeout_ms / 1000)
        self._shards: list[str] = []

    async def open(self, stack: AsyncExitStack) -> None:
        """Waits for the end of another import, and reads catalog and groups.

        Claimed leases are renewed until `stack` ends. Raises ArchiveError, LeasesUnavailable, LogUnavailable.
        """
        self._shards = [names.CATALOG, *await checked_shards(self.stores, self._config)]
        await stack.enter_async_context(self.leases.renewed())
        await self.leases.claim({names.IMPORT: 0})
        await self._read()

    async def take_over(self, stack: AsyncExitStack) -> None:
        """Claims the shards of all coordinators until `stack` ends, and reads catalog and groups again.

        Raises ArchiveError, LeasesUnavailable, LogUnavailable.
        """
        await stack.enter_async_context(self.leases.announced())
        # The last shard first: an import that is killed meanwhile leaves no sign of fewer shards.
        await self.leases.claim(dict.fromkeys(reversed(self._shards), 0))
        await self._read()

    async def _read(self) -> None:
        self.view = await read_catalog(self.stores, self._config)
        self.groups = GroupsByShard(await read_groups(self.stores, self.view), shard_of)

    async def check_memory(self, size: int) -> None:
        """Raises ArchiveError if Redis has no room for so many bytes of record batches."""
        used = limit = 0
        for node in self.stores.link.nodes:
            sample = MemorySample.from_info(await node.call("INFO", "memory", timeout=_WITHIN))
            used, limit = used + sample.used, limit + sample.limit
        if limit and used + size * _OVERHEAD > limit:
            raise ArchiveError(
                f"Redis has no room for {size:,} bytes of records: it uses {used:,} of {limit:,} bytes. "
                "Raise --max-memory, of your own Redis maxmemory, or import fewer topics."
            )

    async def write(self, plan: ImportPlan) -> None:
        """Writes share state and groups, and then the catalog in one step, after `take_over`.

        Raises LeaseLost, LeasesUnavailable, LogError.
        """
        config = self._config
        states = config.share_coordinator_state_topic_num_partitions
        await self._write_shards(
            names.SHARE_COORDINATOR,
            ((shard_of(str(state.key), states), SHARE_STATE.encode(state)) for state in plan.states),
        )
        groups = config.offsets_topic_num_partitions
        await self._write_shards(
            names.GROUP_COORDINATOR,
            ((shard_of(record.group_id, groups), GROUPS.encode(record)) for record in plan.groups),
        )
        await self.leases.check()  # nothing is written, or all of it belongs to these topics
        await self._append(names.CATALOG, [*map(CATALOG.encode, plan.planned.records)])

    async def _write_shards(self, kind: str, payloads: Iterable[tuple[int, bytes]]) -> None:
        by_shard: Mapping[int, list[bytes]] = defaultdict(list)
        for index, payload in payloads:
            by_shard[index].append(payload)
        for index, of_shard in by_shard.items():
            for start in range(0, len(of_shard), WRITE_RECORDS):
                await self._append(names.shard(kind, index), of_shard[start : start + WRITE_RECORDS])

    async def _append(self, shard: str, payloads: Sequence[bytes]) -> None:
        if payloads:
            position = await self.stores.log.last_position(shard) + 1
            await self.stores.log.append(shard, self.leases.epoch(shard), position, payloads)


async def open_target(settings: ServeSettings, stack: AsyncExitStack) -> ImportTarget:
    """Opens a cluster for an import.

    Raises ArchiveError, RedisError, KafkaError, LeasesUnavailable, LogUnavailable.
    """
    target = ImportTarget(await open_to_write(settings, stack), settings)
    await target.open(stack)
    return target
