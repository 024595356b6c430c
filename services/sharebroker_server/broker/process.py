"""One broker process: builds the context, starts the roles, and serves until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker import roles
from sharebroker_server.broker.access_control import AccessControl
from sharebroker_server.broker.garbage import shorten_collections
from sharebroker_server.broker.identity import WILDCARD_HOSTS, PeerListener, advertised, node_identity
from sharebroker_server.broker.logs import follow_level
from sharebroker_server.broker.observability import Observability, start_tracing
from sharebroker_server.broker.ready_file import ReadyFile
from sharebroker_server.broker.redis import RedisConnections, open_redis
from sharebroker_server.broker.roles import BrokerContext, Storage
from sharebroker_server.broker.settings import (
    ServeSettings,
    invalid,
    parse_address,
    parse_principals,
)
from sharebroker_server.broker.state_verifier import StateVerifier, VerifyState
from sharebroker_server.catalog.features import new_levels, unstored_levels
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.upstream_rules import check_same_log
from sharebroker_server.coordinator_runtime.host import not_active, shard_families
from sharebroker_server.gateway.kafka.listener import KafkaServer
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.membership import FailureDetector
from sharebroker_server.leases.observe import MembershipLogger, lease_families
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.persister.default import DefaultPersister
from sharebroker_server.persister.port import NoOpPersister
from sharebroker_server.record_log.redis import RedisRecordStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.links import unreachable
from sharebroker_server.redis_link.port import Link
from sharebroker_server.routing.router import GATEWAY, ROLES, PeerConnector, Router, in_the_clear
from sharebroker_server.rpc.errors import CallLimits
from sharebroker_server.rpc.server import GrpcServer
from sharebroker_server.rpc.tls import Tls
from sharebroker_server.security.access import ClusterAccess
from sharebroker_server.security.authentication.principal_mapping import PrincipalMapping
from sharebroker_server.security.credentials import (
    ClusterCredentials,
    SecretFile,
    SecretsUnavailable,
    StoredSecret,
)
from sharebroker_server.stream_log.port import LogUnavailable
from sharebroker_server.stream_log.redis import RedisStreamLog
from sharebroker_server.telemetry.metrics import AppendMetricsByLog
from sharebroker_server.telemetry.process import release

_log = structlog.get_logger()

GRACE: Final = 3.0
"""Seconds that calls in flight have to end at shutdown."""

HAND_OVER_TIMEOUT: Final = 10.0
"""Seconds to complete writes and to release leases at shutdown, even if Redis is unavailable."""


UPSTREAM_TIMEOUT: Final = 10.0
"""Seconds in which the cluster that has the records should respond at the start."""


class Process:
    """A broker; call `start`, then `stop`.

    With `peers` other brokers serve the address of `--grpc`, too, and peers connect to that listener. `facts`
    are the addresses that it serves, and its roles.
    """

    def __init__(self, settings: ServeSettings, peers: PeerListener | None = None) -> None:
        self._settings = settings
        self._peers = peers
        self._stack = AsyncExitStack()
        self.facts: Mapping[str, object] = {}
        self.address = ""
        self.metrics_address: str | None = None

    async def start(self) -> None:
        """Starts to serve.

        Raises KafkaError INVALID_CONFIG if a setting is invalid or a dependency is unavailable.
        """
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def stop(self) -> None:
        """Drains calls and streams, hands over the leases, and stops."""
        await self._stack.aclose()

    async def _start(self) -> None:
        ready_file = ReadyFile(self._settings.ready_file)
        ready_file.prepare()
        observability = Observability()
        if self._settings.metrics is not None:
            await observability.start(self._settings.metrics)
            self.metrics_address = observability.address
        if self._settings.watched:
            observability.start_sampling()
            self._stack.push_async_callback(observability.stop)
        config = self._settings.config
        tls = None if self._settings.tls is None else Tls(self._settings.tls)
        access = AccessControl(self._settings, self._stack)
        await access.authentication.read_keys()
        credentials = ClusterCredentials()
        cluster_access = ClusterAccess(credentials, parse_principals(config))
        limits = CallLimits(
            config.grpc_max_calls, config.queued_max_request_bytes, config.grpc_max_streams_per_connection
        )
        checks = (cluster_access, *access.authentication.access)
        server = GrpcServer(limits, tls, checks, shares=self._peers is not None)
        port = self._bind(server)
        start_tracing(self._settings, self.address, self._stack)
        observability.export(self._settings, self.address, self._stack)
        kafka = self._bind_kafka(tls, access.authentication.certificates)
        context = await self._build_context(observability, kafka, tls, credentials, access)
        follow_level(context.catalog)
        membership_log = MembershipLogger(context.holder)
        self._stack.push_async_callback(membership_log.stop)
        observability.metrics.add(server.counts.families)
        observability.metrics.add(cluster_access.families)
        for role in (name for name in roles.ORDER if name in self._settings.roles):
            for service in await roles.ORDER[role](context, self._stack):
                server.add(service)
        _observe_leases(context)
        await self._serve(context, server)
        self.facts = {
            "kafka": kafka.address if kafka else None,
            "metrics": self.metrics_address,
            "roles": sorted(self._settings.roles),
        }
        ready_file.write({"grpc": self.address, "port": port, "pid": os.getpid(), **self.facts})
        self._stack.callback(ready_file.remove)
        _log.info("serving", address=self.address, **self.facts)
        membership_log.start()

    def _bind(self, server: GrpcServer) -> int:
        """Binds the listener to which peers connect."""
        if self._peers is None:
            port = server.bind(self._settings.grpc)
            self.address = advertised(self._settings, port)
        else:
            port = server.bind(f"{self._peers.bound}:0")
            self.address = f"{self._peers.advertised}:{port}"
        return port

    def _bind_kafka(self, tls: Tls | None, certificates: PrincipalMapping | None) -> KafkaServer | None:
        if not self._settings.opens_kafka:
            return None
        host, requested = parse_address(self._settings.kafka, "--kafka")
        server = KafkaServer(None if tls is None else tls.context, certificates)
        self._stack.callback(server.close)
        port = server.bind(host, requested)
        grpc = self._settings.advertise or self.address
        name = grpc.rpartition(":")[0] if host in WILDCARD_HOSTS else host
        server.address = self._settings.kafka_advertise or f"{name}:{port}"
        return server

    async def _build_context(
        self,
        observability: Observability,
        kafka: KafkaServer | None,
        tls: Tls | None,
        credentials: ClusterCredentials,
        access: AccessControl,
    ) -> BrokerContext:
        """Connects to Redis, and reads the secret and the catalog. Raises KafkaError INVALID_CONFIG."""
        settings, stack = self._settings, self._stack
        redis = await open_redis(settings, stack)
        observability.metrics.add(redis.families)
        observability.health.checks += [partial(unreachable, link) for link in redis.by_purpose.values()]
        keys = Keys.of_cluster(settings.config.cluster_id)
        storage = open_storage(redis, keys, observability.appends)
        identity = node_identity(settings, self.address)
        settings = replace(settings, config=replace(settings.config, node_id=identity.node_id))
        await _start_credentials(credentials, settings, redis.reads, identity.owner, stack)
        assigned = settings.features
        catalog = MetadataCache(
            storage.log,
            settings.config,
            unstored=unstored_levels(assigned),
            new=new_levels(assigned),
        )
        kafka_address = kafka.address if kafka else ""
        member = ClusterMember(
            identity.owner, identity.node_id, settings.roles, self.address, kafka_address, release()
        )
        ttl = settings.config.broker_session_timeout_ms / 1000
        detector = FailureDetector(storage.leases, ttl)
        holder = LeaseHolder(
            storage.leases, member, ttl, failure_detector=detector, partitions=catalog.partitions
        )
        try:
            await catalog.start()
        except LogUnavailable as error:
            raise invalid(f"The catalog cannot be read: {error}") from error
        stack.push_async_callback(catalog.stop)
        _log_ignored_levels(settings, catalog)
        upstream = await _upstream(settings, catalog, stack)
        access.open(catalog)
        rechecks: list[VerifyState] = [catalog.recheck]
        stack.push_async_callback(StateVerifier({redis.reads, redis.writes}, rechecks).stop)
        connector = PeerConnector(in_the_clear if tls is None else tls.channel, credentials.metadata)
        router = _router(settings, holder, catalog, tls, connector, stack)
        return BrokerContext(
            settings,
            storage,
            holder,
            catalog,
            router,
            DefaultPersister(router) if settings.config.stores_share_state else NoOpPersister(),
            kafka,
            access,
            upstream,
            rechecks=rechecks,
            observability=observability,
        )

    async def _serve(self, context: BrokerContext, server: GrpcServer) -> None:
        # The stack is unwound in reverse: leave notice, streams, leases, calls, then the context of the
        # roles. A call that arrives after the hand-over is rejected with the new owner.
        if self._peers is not None:
            server.share(self._settings.grpc)  # not before: connections would wait for this broker
        await server.start()
        self._stack.push_async_callback(server.stop, GRACE)
        self._stack.push_async_callback(_hand_over, context.holder)
        for drain in context.drains:
            self._stack.push_async_callback(drain)
        await context.holder.start()
        if context.kafka is not None:
            await context.kafka.start()
            self._stack.push_async_callback(context.kafka.stop, GRACE, hang_up=False)
        self._stack.push_async_callback(context.holder.announce_leaving)
        await server.ready()
        context.observability.health.started()
        self._stack.callback(context.observability.health.stop)


async def _upstream(
    settings: ServeSettings, catalog: MetadataCache, stack: AsyncExitStack
) -> ClusterClient | None:
    """Returns the client of the cluster that has the records, None if they are here.

    A cluster that is unreachable now may return while the process runs.

    Raises:
        KafkaError: INVALID_CONFIG if the stored data belongs to another one.
    """
    upstream = settings.upstream
    if upstream is None:
        _check_log(catalog, "")
        return None
    _check_log(catalog, upstream.addresses)
    if upstream.properties.ignored:
        _log.warning("properties without effect", names=upstream.properties.ignored)
    client = ClusterClient(upstream.bootstrap, upstream.connection)
    stack.callback(client.close)
    try:
        async with asyncio.timeout(UPSTREAM_TIMEOUT):
            metadata = await client.refresh()
    except (KafkaError, TimeoutError) as error:
        reason = error.message if isinstance(error, KafkaError) else f"no response in {UPSTREAM_TIMEOUT:g} s"
        _log.error("upstream cluster unreachable", address=upstream.addresses, reason=reason)
    else:
        _check_log(catalog, upstream.addresses, metadata.cluster_id)
    return client


def _check_log(catalog: MetadataCache, addresses: str, cluster_id: str = "") -> None:
    try:
        check_same_log(catalog.catalog, addresses, cluster_id)
    except KafkaError as error:
        raise invalid(error.message) from error


def _log_ignored_levels(settings: ServeSettings, catalog: MetadataCache) -> None:
    """Logs levels of `--feature` that differ from those of the cluster, which count."""
    given = settings.features.items()
    ignored = {name: level for name, level in given if catalog.features.get(name) != level}
    if ignored and catalog.catalog.cluster_id:
        _log.warning("feature levels ignored", ignored=ignored, levels=dict(catalog.features))


def open_storage(redis: RedisConnections, keys: Keys, appends: AppendMetricsByLog) -> Storage:
    """Opens the stores; `appends` measures appends."""
    return Storage(
        keys,
        RedisStreamLog(redis.reads, keys, writes=redis.writes, appends=appends),
        RedisRecordStore(redis.reads, keys, writes=redis.writes, appends=appends),
        RedisLeaseStore(redis.reads, keys, writes=redis.writes),
    )


async def _start_credentials(
    credentials: ClusterCredentials, settings: ServeSettings, redis: Link, owner: str, stack: AsyncExitStack
) -> None:
    """Reads the cluster secret from its file, or from Redis. Raises INVALID_CONFIG."""
    file, keys = settings.cluster_secret_file, Keys.of_cluster(settings.config.cluster_id)
    source = StoredSecret(redis, keys.cluster_secret()) if file is None else SecretFile(file)
    try:
        await credentials.start(source, owner)
    except SecretsUnavailable as error:
        raise invalid(str(error)) from error
    stack.push_async_callback(credentials.stop)


def _router(
    settings: ServeSettings,
    holder: LeaseHolder,
    catalog: MetadataCache,
    tls: Tls | None,
    connector: PeerConnector,
    stack: AsyncExitStack,
) -> Router:
    router = Router(
        holder,
        holder.member.owner,
        group_shards=settings.config.offsets_topic_num_partitions,
        share_shards=settings.config.share_coordinator_state_topic_num_partitions,
        transaction_shards=settings.config.transaction_state_log_num_partitions,
        connector=connector,
    )
    router.state_in_log = catalog.state_in_log
    stack.push_async_callback(router.close)
    if tls is not None:
        tls.changed.append(router.redial)
        stack.push_async_callback(end, [asyncio.create_task(tls.watch(), name="TLS files")])
    return router


def _observe_leases(context: BrokerContext) -> None:
    """Adds metrics of leases and shards. The process is ready once it holds the leases it should own."""
    holder, metrics, health = context.holder, context.observability.metrics, context.observability.health
    metrics.add(partial(lease_families, holder))
    metrics.add(partial(shard_families, context.hosts))
    health.missing += [holder.missing, partial(not_active, context.hosts)]
    if GATEWAY in holder.member.roles:
        health.missing.append(partial(_missing_roles, holder))


def _missing_roles(holder: LeaseHolder) -> list[str]:
    """Returns the roles that no live broker has: a gateway serves nothing without them."""
    present = {role for member in holder.members for role in member.roles}
    return [f"a broker with the role {role}" for role in ROLES if role not in present]


async def _hand_over(holder: LeaseHolder) -> None:
    """Hands over the leases; leases that are not released in time expire."""
    try:
        async with asyncio.timeout(HAND_OVER_TIMEOUT):
            await holder.stop()
    except TimeoutError:
        _log.warning("lease hand-over timed out", seconds=HAND_OVER_TIMEOUT)


async def run(process: Process, on_serving: Callable[[], None] = lambda: None) -> None:
    """Serves until SIGTERM or SIGINT; calls `on_serving` once it serves.

    Raises KafkaError INVALID_CONFIG if the broker cannot start.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report)
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    await process.start()
    on_serving()
    shorten_collections()
    await stopping.wait()
    _log.info("stopping")
    await process.stop()


def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs unhandled exceptions as asyncio does, except failed host lookups.

    uvloop continues a lookup whose caller timed out, and the caller has reported its error.
    """
    if not isinstance(context.get("exception"), socket.gaierror):
        loop.default_exception_handler(context)
