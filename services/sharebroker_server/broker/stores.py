"""The stores of a cluster in Redis, opened by a command and not by a server."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Final, NamedTuple

from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.redis import FOLDER, connect_to_examine, open_redis
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.record_log.redis import RedisRecordStore
from sharebroker_server.redis_link.embedded import socket_of
from sharebroker_server.redis_link.format_version import FIRST, check_format, read_format
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.port import Link, RedisUnavailable
from sharebroker_server.stream_log.redis import RedisStreamLog
from sharebroker_server.telemetry.process import release

_WITHIN: Final = 10.0


class Stores(NamedTuple):
    """The stores, and the link that they use."""

    link: Link
    keys: Keys
    log: RedisStreamLog
    records: RedisRecordStore
    leases: RedisLeaseStore


async def open_to_read(settings: ServeSettings, stack: AsyncExitStack) -> Stores:
    """Opens the stores of a cluster that may serve; starts the embedded Valkey if no server has done so.

    Raises ArchiveError, RedisError, KafkaError.
    """
    link = await _connect(settings, stack)
    stores = _stores(link, settings)
    stored = await read_format(link, stores.keys)
    check_format("The cluster", stored or FIRST, release())
    return stores


async def open_to_write(settings: ServeSettings, stack: AsyncExitStack) -> Stores:
    """Opens the stores of a cluster of which no server runs. Raises KafkaError."""
    redis = await open_redis(settings, stack)
    return _stores(redis.writes, settings)


async def _connect(settings: ServeSettings, stack: AsyncExitStack) -> Link:
    data = settings.data / FOLDER
    if settings.redis is None and not data.exists():
        raise ArchiveError(f"{settings.data} has no data of an embedded Valkey.")
    if settings.redis is not None or socket_of(data).exists():
        try:
            link = await connect_to_examine(settings.redis, str(settings.data), _WITHIN)
        except RedisUnavailable:
            if settings.redis is not None:
                raise
        else:
            stack.push_async_callback(link.close)
            return link
    return (await open_redis(settings, stack)).reads


def _stores(link: Link, settings: ServeSettings) -> Stores:
    keys = Keys.of_cluster(settings.config.cluster_id)
    return Stores(
        link, keys, RedisStreamLog(link, keys), RedisRecordStore(link, keys), RedisLeaseStore(link, keys)
    )
