"""The connections of a broker to Redis, or to the embedded Valkey that it starts."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.redis_link.embedded import EmbeddedRedis
from sharebroker_server.redis_link.link import LinkSettings, Replicas
from sharebroker_server.redis_link.links import connect
from sharebroker_server.redis_link.port import Link, RedisError

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to connect to the Redis of `--redis`."""


@dataclass(frozen=True, slots=True)
class RedisConnections:
    """The links for reads and for writes: the same link, unless writes wait for replicas."""

    reads: Link
    writes: Link

    @property
    def by_purpose(self) -> dict[str, Link]:
        """The links by their label in metrics."""
        return (
            {"all": self.reads} if self.writes is self.reads else {"reads": self.reads, "writes": self.writes}
        )


async def open_redis(settings: ServeSettings, stack: AsyncExitStack) -> RedisConnections:
    """Connects to Redis, or starts the embedded Valkey; `stack` closes both. Raises INVALID_CONFIG."""
    replicas = _replicas(settings)
    try:
        url = settings.redis or await _start_embedded(settings, stack)
        reads = await _open(url, stack)
        writes = await _open(url, stack, replicas) if replicas else reads
    except RedisError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return RedisConnections(reads, writes)


async def _open(url: str, stack: AsyncExitStack, replicas: Replicas | None = None) -> Link:
    link = await connect(url, timeout=CONNECT_TIMEOUT, settings=LinkSettings(replicas=replicas))
    stack.push_async_callback(link.close)
    return link


def _replicas(settings: ServeSettings) -> Replicas | None:
    """Returns the replicas that must have each write. Raises INVALID_CONFIG for the embedded Valkey."""
    count = settings.config.redis_wait_replicas
    if count and settings.redis is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "redis.wait.replicas needs --redis: the embedded Valkey has no replicas.",
        )
    return Replicas(count, settings.config.redis_wait_timeout_ms / 1000) if count else None


async def _start_embedded(settings: ServeSettings, stack: AsyncExitStack) -> str:
    server = EmbeddedRedis(settings.data / "valkey", fsync=settings.fsync)
    await server.start()
    stack.push_async_callback(server.stop)
    return server.url
