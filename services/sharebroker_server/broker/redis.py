"""The connections of a broker to Redis, or to the embedded Valkey that it starts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sharebroker_server.broker.settings import ServeSettings, invalid
from sharebroker_server.redis_link.data_folder import make_private
from sharebroker_server.redis_link.embedded import LINK, EmbeddedRedis, socket_of, socket_url
from sharebroker_server.redis_link.format_version import FORMAT_FILE, check_folder, check_redis
from sharebroker_server.redis_link.link import LinkSettings, Replicas
from sharebroker_server.redis_link.links import connect, link_families
from sharebroker_server.redis_link.memory import default_limit
from sharebroker_server.redis_link.port import Link, RedisError
from sharebroker_server.telemetry.metrics import Family

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to connect to the Redis of `--redis`."""

NODE_FILE: Final = "node.json"
"""The file with this node's identity in a data folder."""

OWN_FILES: Final = (NODE_FILE, FORMAT_FILE)
"""Our files in the data folder, which may contain other things than ours."""

_WRITTEN: Final = (*OWN_FILES, "node.new", "format.new")
"""Our files, and those that replace them."""

FOLDER: Final = "valkey"
"""The folder of the embedded Valkey in the data folder."""

RESTORE_MARKER: Final = "restore.unfinished"
"""A file in a data folder into which a backup is being restored."""


async def connect_to_examine(url: str | None, data: str | None, timeout: float) -> Link:
    """Connects to a Redis, or without `url` to the embedded Valkey of a data folder.

    Raises RedisError, and KafkaError INVALID_CONFIG if no server uses the folder.
    """
    if url is None:
        socket = socket_of(Path(data or "") / FOLDER)
        if not socket.exists():
            raise invalid(f"No server with an embedded Valkey runs on the data folder {data}.")
        url = socket_url(socket)
    return await connect(url, timeout=timeout, settings=LinkSettings(evicting=True))


@dataclass(frozen=True, slots=True)
class RedisConnections:
    """The links for reads and for writes: the same link, unless writes wait for replicas."""

    reads: Link
    writes: Link
    embedded: EmbeddedRedis | None = None

    @property
    def by_purpose(self) -> dict[str, Link]:
        """The links by their label in metrics."""
        return (
            {"all": self.reads} if self.writes is self.reads else {"reads": self.reads, "writes": self.writes}
        )

    def families(self) -> Iterable[Family]:
        """Returns the metric families of the links and of the embedded Valkey."""
        yield from link_families(self.by_purpose)
        if self.embedded is not None:
            yield from self.embedded.memory.families()


async def open_redis(settings: ServeSettings, stack: AsyncExitStack) -> RedisConnections:
    """Connects to Redis, or starts the embedded Valkey, and checks the format version of the data.

    `stack` closes both. Raises INVALID_CONFIG.
    """
    replicas = _replicas(settings)
    if settings.redis is not None and settings.max_memory is not None:
        raise invalid("--max-memory limits the embedded Valkey: set maxmemory in the Redis of --redis.")
    try:
        embedded, url = None, settings.redis
        if url is None:
            embedded = await _start_embedded(settings, stack)
            url = embedded.url
        link_settings = LINK if url.startswith("unix:") else LinkSettings()
        reads = await _open(url, stack, link_settings)
        writes = await _open(url, stack, LinkSettings(replicas=replicas)) if replicas else reads
        await check_redis(writes, settings.config.cluster_id)
    except RedisError as error:
        raise invalid(str(error)) from error
    return RedisConnections(reads, writes, embedded)


async def _open(url: str, stack: AsyncExitStack, settings: LinkSettings) -> Link:
    link = await connect(url, timeout=CONNECT_TIMEOUT, settings=settings)
    stack.push_async_callback(link.close)
    return link


def _replicas(settings: ServeSettings) -> Replicas | None:
    """Returns the replicas that must have each write. Raises INVALID_CONFIG for the embedded Valkey."""
    count = settings.config.redis_wait_replicas
    if count and settings.redis is None:
        raise invalid("redis.wait.replicas needs --redis: the embedded Valkey has no replicas.")
    return Replicas(count, settings.config.redis_wait_timeout_ms / 1000) if count else None


async def _start_embedded(settings: ServeSettings, stack: AsyncExitStack) -> EmbeddedRedis:
    if (settings.data / RESTORE_MARKER).exists():
        raise invalid(f"{settings.data} contains an unfinished restore. Repeat it, or remove the folder.")
    make_private(settings.data, names=_WRITTEN)
    check_folder(settings.data)
    default = default_limit(processes=settings.processes)
    limit = default if settings.max_memory is None else settings.max_memory
    server = EmbeddedRedis(settings.data / FOLDER, fsync=settings.fsync, max_memory=limit)
    await server.start()
    stack.push_async_callback(server.stop)
    return server
