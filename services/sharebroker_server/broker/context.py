"""What every role stands on: Redis, this node's identity, leases, the catalog, ways to others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.broker.observability import Watching
from sharebroker_server.broker.redis_generation import Recheck, Rechecks
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.cluster.router import Router, in_the_clear
from sharebroker_server.coordinator_runtime.metrics import AnyHost
from sharebroker_server.gateway.kafka.connection.listener import KafkaServer
from sharebroker_server.leases.failure_detector import Deaths
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.identity import Identity, at_address, persistent, temporary
from sharebroker_server.leases.port import LeaseStore, Member
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.persister.default import DefaultPersister
from sharebroker_server.persister.no_op import NoOpPersister
from sharebroker_server.record_log.metered import MeteredRecordStore
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.record_log.redis import RedisRecordStore
from sharebroker_server.redis_link.embedded.server import EmbeddedRedis
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.link.errors import RedisError
from sharebroker_server.redis_link.link.link import LinkSettings
from sharebroker_server.redis_link.link.port import Link
from sharebroker_server.redis_link.link.replicas import Replicas
from sharebroker_server.redis_link.topology.connect import connect
from sharebroker_server.rpc.tls import Tls
from sharebroker_server.stream_log.metered import MeteredStreamLog
from sharebroker_server.stream_log.port import LogUnavailable, StreamLog
from sharebroker_server.stream_log.redis import RedisStreamLog
from sharebroker_server.telemetry.process import release

REDIS_TIMEOUT = 10.0
"""Seconds to wait for a Redis that was named with --redis."""


@dataclass(frozen=True, slots=True)
class Foundation:
    """Shared by the roles of one process. What is in `drains` ends streams before the server stops.

    What is in `rechecks` compares memory with a Redis that may have lost something. `watching` tells others
    how the process is, `hosts` are its coordinators' shards.
    """

    settings: ServeSettings
    keys: Keys
    log: StreamLog
    records: RecordStore
    leases: LeaseStore
    holder: LeaseHolder
    catalog: MetadataCache
    router: Router
    persister: DefaultPersister | NoOpPersister
    kafka: KafkaServer | None
    drains: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    rechecks: list[Recheck] = field(default_factory=list)
    watching: Watching = field(default_factory=Watching)
    hosts: list[AnyHost] = field(default_factory=list)

    def most_series(self) -> int:
        """How many share-partitions have metrics of their own."""
        return self.catalog.broker.metrics_max_share_partitions


@dataclass(frozen=True, slots=True)
class Edge:
    """How others are met: the door for Kafka clients, if there is one, and TLS, if that is used."""

    kafka: KafkaServer | None
    tls: Tls | None


async def lay(
    settings: ServeSettings,
    address: str,
    edge: Edge,
    watching: Watching,
    stack: contextlib.AsyncExitStack,
) -> Foundation:
    """Builds the foundation of a process that others reach at `address`; `stack` takes it down again.

    Raises KafkaError INVALID_CONFIG in one sentence for people.
    """
    replicas = _replicas(settings)
    try:
        url = settings.redis or await _embedded(settings, stack)
        link = await _linked(url, stack)
        writes = await _linked(url, stack, replicas) if replicas else link
    except RedisError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    watching.redis({"all": link} if writes is link else {"reads": link, "writes": writes})
    keys = Keys.of_cluster(settings.config.cluster_id)
    log, records = _logs(link, writes, keys, watching if settings.watched else None)
    identity = _identity(settings, address)
    door = edge.kafka.address if edge.kafka else ""
    member = Member(identity.owner, identity.node_id, settings.roles, address, door, release())
    leases = RedisLeaseStore(link, keys, writes=writes)
    ttl = settings.config.broker_session_timeout_ms / 1000
    settings = replace(settings, config=replace(settings.config, node_id=identity.node_id))
    catalog = MetadataCache(log, settings.config)
    holder = LeaseHolder(leases, member, ttl, deaths=Deaths(leases, ttl), partitions=catalog.partitions)
    try:
        await catalog.start()
    except LogUnavailable as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"The catalog cannot be read: {error}") from error
    stack.push_async_callback(catalog.stop)
    checks: list[Recheck] = [catalog.recheck]
    stack.push_async_callback(Rechecks({link, writes}, checks).stop)
    router = Router(
        holder,
        identity.owner,
        group_shards=settings.config.offsets_topic_num_partitions,
        share_shards=settings.config.share_coordinator_state_topic_num_partitions,
        transaction_shards=settings.config.transaction_state_log_num_partitions,
        dial=in_the_clear if edge.tls is None else edge.tls.channel,
    )
    stack.push_async_callback(router.close)
    if edge.tls is not None:
        _follow_files(edge.tls, router, stack)
    return Foundation(
        settings,
        keys,
        log,
        records,
        leases,
        holder,
        catalog,
        router,
        _persister(settings.config.group_share_persister_class_name, router),
        edge.kafka,
        rechecks=checks,
        watching=watching,
    )


def _persister(class_name: str, router: Router) -> DefaultPersister | NoOpPersister:
    """Returns the persister that `group.share.persister.class.name` names."""
    return NoOpPersister() if class_name.endswith("NoOpStatePersister") else DefaultPersister(router)


def _follow_files(tls: Tls, router: Router, stack: contextlib.AsyncExitStack) -> None:
    tls.changed.append(router.redial)
    stack.push_async_callback(end, [asyncio.create_task(tls.watch(), name="TLS files")])


def _logs(link: Link, writes: Link, keys: Keys, watching: Watching | None) -> tuple[StreamLog, RecordStore]:
    """Where state and records are kept; metered where somebody watches."""
    log = RedisStreamLog(link, keys, writes=writes)
    records = RedisRecordStore(link, keys, writes=writes)
    if watching is None:
        return log, records
    return MeteredStreamLog(log, watching.appends), MeteredRecordStore(records, watching.appends)


async def _linked(url: str, stack: contextlib.AsyncExitStack, replicas: Replicas | None = None) -> Link:
    link = await connect(url, timeout=REDIS_TIMEOUT, settings=LinkSettings(replicas=replicas))
    stack.push_async_callback(link.close)
    return link


def _replicas(settings: ServeSettings) -> Replicas | None:
    """Who has to have what is written. Raises INVALID_CONFIG where nobody can."""
    count = settings.config.redis_wait_replicas
    if count and settings.redis is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "redis.wait.replicas needs --redis: the embedded Valkey has no replicas.",
        )
    return Replicas(count, settings.config.redis_wait_timeout_ms / 1000) if count else None


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
        return persistent(settings.data / "node.json", node_id, settings.config.cluster_id)
    except (OSError, ValueError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
