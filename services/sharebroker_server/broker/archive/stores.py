"""The stores of a cluster in Redis, opened by a command and not by a server."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Final, NamedTuple

from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.redis import FOLDER, connect_to_examine, open_redis
from sharebroker_server.broker.settings import ServeSettings, invalid
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
    if settings.redis is None and not (settings.data / FOLDER).exists():
        raise ArchiveError(f"{settings.data} has no data of an embedded Valkey.")
    link = await _connect(settings, stack) or (await open_redis(settings, stack)).reads
    return await _checked(_stores(link, settings))


async def open_to_write(settings: ServeSettings, stack: AsyncExitStack) -> Stores:
    """Opens the stores of a cluster that may serve; starts the embedded Valkey if no server has done so.

    Raises ArchiveError, RedisError, KafkaError.
    """
    link = await _connect(settings, stack) if settings.redis is None else None
    if link is None:
        return _stores((await open_redis(settings, stack)).writes, settings)
    if settings.max_memory is not None:
        raise invalid("--max-memory has no effect: a server runs on the data folder. Leave it out.")
    return await _checked(_stores(link, settings))


async def _checked(stores: Stores) -> Stores:
    """Returns the stores. Raises ArchiveError for a newer format version."""
    check_format("The cluster", await read_format(stores.link, stores.keys) or FIRST, release())
    return stores


async def _connect(settings: ServeSettings, stack: AsyncExitStack) -> Link | None:
    """Connects to a Redis, or to an embedded Valkey that runs; None if none runs."""
    if settings.redis is not None or socket_of(settings.data / FOLDER).exists():
        try:
            link = await connect_to_examine(settings.redis, str(settings.data), _WITHIN)
        except RedisUnavailable:
            if settings.redis is not None:
                raise
        else:
            stack.push_async_callback(link.close)
            return link
    return None


def _stores(link: Link, settings: ServeSettings) -> Stores:
    keys = Keys.of_cluster(settings.config.cluster_id)
    return Stores(
        link, keys, RedisStreamLog(link, keys), RedisRecordStore(link, keys), RedisLeaseStore(link, keys)
    )
