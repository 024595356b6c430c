"""What every role stands on: Redis, this node's identity, leases, the catalog, ways to others."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from libs.catalog.follower import CatalogFollower
from libs.leases.holder import LeaseHolder
from libs.leases.identity import Identity, at_address, persistent, temporary
from libs.leases.port import Member
from libs.leases.redis import RedisLeaseStore
from libs.persister.default import DefaultPersister
from libs.redis_link.embedded import EmbeddedRedis
from libs.redis_link.errors import RedisError
from libs.redis_link.keys import Keys
from libs.redis_link.link import RedisLink
from libs.rpc.router import Router
from libs.stream_log.port import LogUnavailable
from libs.stream_log.redis import RedisStreamLog
from services.broker.settings import ServeSettings
from sharebroker.errors import ErrorCode, KafkaError

REDIS_TIMEOUT = 10.0
"""Seconds to wait for a Redis that was named with --redis."""


@dataclass(frozen=True, slots=True)
class Foundation:
    """Shared by the roles of one process. What is in `drains` ends streams before the server stops."""

    settings: ServeSettings
    link: RedisLink
    keys: Keys
    log: RedisStreamLog
    holder: LeaseHolder
    catalog: CatalogFollower
    router: Router
    persister: DefaultPersister
    drains: list[Callable[[], Awaitable[None]]] = field(default_factory=list)


async def lay(settings: ServeSettings, address: str, stack: contextlib.AsyncExitStack) -> Foundation:
    """Builds the foundation of a process that others reach at `address`; `stack` takes it down again.

    Raises KafkaError INVALID_CONFIG in one sentence for people.
    """
    try:
        url = settings.redis or await _embedded(settings, stack)
        link = await RedisLink.connect(url, timeout=REDIS_TIMEOUT)
    except RedisError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    stack.push_async_callback(link.close)
    keys, log = Keys(), RedisStreamLog(link)
    identity = _identity(settings, address)
    member = Member(identity.owner, identity.node_id, settings.roles, address)
    holder = LeaseHolder(RedisLeaseStore(link), member)
    settings = replace(settings, config=replace(settings.config, node_id=identity.node_id))
    catalog = CatalogFollower(log, settings.config)
    try:
        await catalog.start()
    except LogUnavailable as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"The catalog cannot be read: {error}") from error
    stack.push_async_callback(catalog.stop)
    router = Router(
        holder,
        identity.owner,
        group_shards=settings.config.offsets_topic_num_partitions,
        share_shards=settings.config.share_coordinator_state_topic_num_partitions,
    )
    stack.push_async_callback(router.close)
    return Foundation(settings, link, keys, log, holder, catalog, router, DefaultPersister(router))


async def _embedded(settings: ServeSettings, stack: contextlib.AsyncExitStack) -> str:
    server = EmbeddedRedis(settings.data / "valkey", fsync=settings.fsync)
    await server.start()
    stack.push_async_callback(server.stop)
    return server.url


def _identity(settings: ServeSettings, address: str) -> Identity:
    """Who this process is: by `node.id`, else kept beside a Redis of its own, else by its address.

    In each case a process that is started again takes the leases of its earlier self back at once.
    """
    node_id = settings.config.node_id if settings.config.node_id >= 0 else None
    if settings.redis is not None:
        return at_address(address) if node_id is None else temporary(node_id)
    try:
        return persistent(settings.data / "node.json", node_id)
    except (OSError, ValueError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
