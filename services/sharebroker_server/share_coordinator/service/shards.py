"""The shards of the share coordinator in this process, and the shard of each share-partition."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.coordinator_runtime.host import ShardHost, shard_of
from sharebroker_server.share_coordinator.config import ShareCoordinatorConfig
from sharebroker_server.share_coordinator.core import commands as c
from sharebroker_server.share_coordinator.core.machine import ShareCoordinatorMachine
from sharebroker_server.share_coordinator.core.state import ShareRecord
from sharebroker_server.share_coordinator.store.codec import ShareRecordCodec
from sharebroker_server.stream_log.port import StreamLog

Host = ShardHost[c.Command, ShareRecord, c.Reply]

Route = Callable[[str, str, int], tuple[SharePartitionKey, int]]
"""Returns the key and the shard of a share-partition: group, topic id, partition. Raises INVALID_REQUEST."""

_KEY_CACHE_SIZE = 65_536


def make_host(log: StreamLog, config: ShareCoordinatorConfig) -> Host:
    """Returns the share coordinator's shards; start the host with the process's lease holder."""
    return ShardHost(
        "share-coordinator",
        config.shards,
        log,
        lambda _: ShareCoordinatorMachine(config.rules),
        ShareRecordCodec(),
        config.runtime,
    )


def make_route(host: Host) -> Route:
    """Returns the function that selects a shard of `host`; it caches the keys that were used last."""

    @lru_cache(_KEY_CACHE_SIZE)
    def route(group_id: str, topic_id: str, partition: int) -> tuple[SharePartitionKey, int]:
        key = c.make_key(group_id, topic_id, partition)
        return key, shard_of(str(key), host.shards or 1)

    return route
