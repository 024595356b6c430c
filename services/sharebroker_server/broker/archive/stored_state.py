"""Reads the stored state of a cluster directly in Redis: catalog, groups and share state.

The logs of coordinators are replayed as a coordinator does when it loads a shard. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from sharebroker_server.broker.archive.codec import GROUPS, SHARE_STATE
from sharebroker_server.broker.archive.stores import Stores
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.lifecycle import decoded, replay
from sharebroker_server.coordinator_runtime.machine import Machine, RecordCodec
from sharebroker_server.group_coordinator.core.machine import GroupMachine
from sharebroker_server.leases import names
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.machine import ShareCoordinatorMachine

M = TypeVar("M", bound=Machine[Any, Any, Any])

_PAGE: Final = 1_000
_ATTEMPTS: Final = 20
"""Attempts at a log whose owner trims it while it is read."""

_WITHIN: Final = 10.0


async def read_catalog(stores: Stores, config: BrokerConfig) -> MetadataCache:
    """Returns the catalog as it is now.

    Raises LogUnavailable; ArchiveError if the records are in another cluster.
    """
    cache = MetadataCache(stores.log, config)
    await cache.start()
    await cache.stop()
    addresses = cache.catalog.upstream_addresses
    if addresses:
        raise ArchiveError(
            f"The topics of this data are in the Kafka cluster at {addresses}. Export and import move topics "
            "with their records, and only those of a cluster without --log."
        )
    return cache


async def checked_shards(stores: Stores, config: BrokerConfig) -> list[str]:
    """Returns the shards of groups and share state.

    To be called before a claim: it creates the leases by which their numbers are recognised. Raises
    ArchiveError if the cluster has served with other numbers.
    """
    return [*await _group_shards(stores, config), *await _share_shards(stores, config)]


async def read_groups(stores: Stores, view: MetadataCache) -> list[GroupMachine]:
    """Returns the groups of each shard. Raises ArchiveError, LogUnavailable."""
    shards = await _group_shards(stores, view.static)
    return [await _replayed(stores, shard, lambda: GroupMachine(view), GROUPS) for shard in shards]


async def read_share_state(stores: Stores, config: BrokerConfig) -> list[ShareCoordinatorMachine]:
    """Returns the share state of each shard. Raises ArchiveError, LogUnavailable."""
    shards = await _share_shards(stores, config)
    return [
        await _replayed(stores, shard, lambda: ShareCoordinatorMachine(CheckpointRules()), SHARE_STATE)
        for shard in shards
    ]


async def _replayed(stores: Stores, shard: str, machine: Callable[[], M], codec: RecordCodec[Any]) -> M:
    """Replays the log of a shard to its end. Raises ArchiveError, LogUnavailable."""
    for _ in range(_ATTEMPTS):
        found, after = machine(), 0
        while entries := await stores.log.read(shard, after, _PAGE):
            if after and entries[0].position != after + 1:
                break  # the owner has trimmed what comes next
            try:
                replay(found, decoded(codec, entries))
            except ValueError as error:
                raise ArchiveError(f"{shard}: {error}.") from error
            after = entries[-1].position
        else:
            return found
    raise ArchiveError(f"The log of {shard} is trimmed again and again while it is read. Repeat the command.")


async def _group_shards(stores: Stores, config: BrokerConfig) -> list[str]:
    shards = names.shards(names.GROUP_COORDINATOR, config.offsets_topic_num_partitions)
    return await _checked(stores, shards, "offsets.topic.num.partitions")


async def _share_shards(stores: Stores, config: BrokerConfig) -> list[str]:
    shards = names.shards(names.SHARE_COORDINATOR, config.share_coordinator_state_topic_num_partitions)
    return await _checked(stores, shards, "share.coordinator.state.topic.num.partitions")


async def _checked(stores: Stores, shards: list[str], key: str) -> list[str]:
    """Returns the shards. Raises ArchiveError if the cluster has served with another number of shards."""
    kind, count = names.kind_of(shards[0]), len(shards)
    first, last, beyond = [
        await stores.link.call("EXISTS", stores.keys.lease(names.shard(kind, index)), timeout=_WITHIN)
        for index in (0, count - 1, count)
    ]
    if beyond or (first and not last):
        raise ArchiveError(f"The cluster does not have {count} shards: pass its {key} with --set.")
    return shards
