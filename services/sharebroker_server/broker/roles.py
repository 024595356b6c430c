"""The roles of a broker: the services that each role starts, on what all roles of a process share.

This module and `process` are the composition root: no other module imports several services.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Final

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.cluster.v1 import cluster_pb2_grpc
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2_grpc
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2_grpc
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2_grpc
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2_grpc
from sharebroker_server.broker.access_control import AccessControl
from sharebroker_server.broker.cleanup import Cleanup
from sharebroker_server.broker.observability import Observability
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.broker.state_verifier import VerifyState
from sharebroker_server.catalog.features import new_levels
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.topics import internal_partitions, partition_count
from sharebroker_server.coordinator_runtime.host import AnyHost
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.grpc.services import services
from sharebroker_server.gateway.kafka.api_table import APIS
from sharebroker_server.gateway.kafka.authentication import SaslSettings
from sharebroker_server.gateway.kafka.call import KafkaListener
from sharebroker_server.gateway.kafka.cluster_view import Brokers, LiveMembers
from sharebroker_server.gateway.kafka.listener import KafkaServer
from sharebroker_server.gateway.kafka.throttling import ClientThrottle
from sharebroker_server.gateway.metrics import gateway_families
from sharebroker_server.gateway.share.session_end import SessionReaper
from sharebroker_server.group_coordinator.clients.log_ends import LeaderLogEnds
from sharebroker_server.group_coordinator.clients.markers import RoutedMarkers
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.service.catalog import CatalogServicer
from sharebroker_server.group_coordinator.service.servicer import GroupCoordinator
from sharebroker_server.group_coordinator.service.shards import (
    CatalogHost,
    make_catalog_host,
    make_transaction_host,
)
from sharebroker_server.group_coordinator.service.shards import make_host as make_group_host
from sharebroker_server.group_coordinator.service.share_groups import Ports as GroupPorts
from sharebroker_server.group_coordinator.service.transactions import TransactionCoordinator
from sharebroker_server.group_coordinator.service.upstream_catalog import UpstreamCatalog
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.membership import PortProbe
from sharebroker_server.leases.port import LeaseStore
from sharebroker_server.persister.default import DefaultPersister
from sharebroker_server.persister.port import NoOpPersister
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.routing.router import GATEWAY, GROUP_COORDINATOR, LEADER, SHARE_COORDINATOR, Router
from sharebroker_server.routing.transaction_check import CoordinatorCheck
from sharebroker_server.rpc.server import Service
from sharebroker_server.share_coordinator.config import ShareCoordinatorConfig
from sharebroker_server.share_coordinator.service.deleted_topics import DeletedTopicCleanup
from sharebroker_server.share_coordinator.service.partition_states import PartitionStates
from sharebroker_server.share_coordinator.service.servicer import ShareCoordinator
from sharebroker_server.share_coordinator.service.shards import Host as ShareHost
from sharebroker_server.share_coordinator.service.shards import make_host as make_share_host
from sharebroker_server.share_partition_leader.dead_letters.catalog_settings import (
    CatalogGroups,
    CatalogLetterSettings,
)
from sharebroker_server.share_partition_leader.dead_letters.circuit_breaker import CircuitBreaker
from sharebroker_server.share_partition_leader.dead_letters.counts import LetterCounts
from sharebroker_server.share_partition_leader.dead_letters.mover import DeadLetterMover
from sharebroker_server.share_partition_leader.leadership import Leadership
from sharebroker_server.share_partition_leader.log.retention import RetentionTask
from sharebroker_server.share_partition_leader.metrics.counters import ExhaustedRecordsLogger
from sharebroker_server.share_partition_leader.metrics.metrics import LeaderMetrics
from sharebroker_server.share_partition_leader.requests.servicer import SharePartitionLeaderServicer
from sharebroker_server.stream_log.port import StreamLog
from sharebroker_server.upstream_log.fetching import FetchSettings
from sharebroker_server.upstream_log.sessions import UpstreamLogs
from sharebroker_server.upstream_log.upstream_cluster import ReadSettings


@dataclass(frozen=True, slots=True)
class Storage:
    """The stores of a broker under one key prefix of Redis."""

    keys: Keys
    log: StreamLog
    records: RecordStore
    leases: LeaseStore


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """Shared by the roles of one process.

    The callables in `drains` end streams before the server stops. Those in `rechecks` compare the memory with
    a Redis that may have lost writes. `hosts` are the hosts of the coordinators' shards. `access`
    authenticates and authorizes clients. `upstream` is the cluster that has the records, None if they are in
    `storage`.
    """

    settings: ServeSettings
    storage: Storage
    holder: LeaseHolder
    catalog: MetadataCache
    router: Router
    persister: DefaultPersister | NoOpPersister
    kafka: KafkaServer | None
    access: AccessControl
    upstream: ClusterClient | None = None
    drains: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    rechecks: list[VerifyState] = field(default_factory=list)
    observability: Observability = field(default_factory=Observability)
    hosts: list[AnyHost] = field(default_factory=list)

    def most_series(self) -> int:
        """Returns the number of share-partitions with metrics of their own."""
        return self.catalog.broker.metrics_max_share_partitions


def _service(name: str, servicer: object, generated: ModuleType) -> Service:
    """Returns the service with its full name, which `generated` registers."""
    return Service(name, servicer, getattr(generated, f"add_{name.rpartition('.')[2]}Servicer_to_server"))


async def share_coordinator(base: BrokerContext, stack: AsyncExitStack) -> list[Service]:
    """Starts the share coordinator."""
    config = ShareCoordinatorConfig.of(base.settings.config)
    host = make_share_host(base.storage.log, config)
    base.hosts.append(host)
    await host.start(base.holder)
    base.rechecks.append(host.recheck)
    stack.push_async_callback(host.stop)
    interval = base.settings.config.share_coordinator_state_topic_prune_interval_ms / 1000
    cleanup = DeletedTopicCleanup(host, base.catalog.is_deleted, interval)
    cleanup.start()
    stack.push_async_callback(cleanup.stop)
    return [_share_state(base, host)]


def _share_state(base: BrokerContext, host: ShareHost) -> Service:
    """Returns the service of share state, on the shards of `host` and on the logs that this process leads."""
    storage, config = base.storage, ShareCoordinatorConfig.of(base.settings.config)
    states = PartitionStates(config.rules, config.runtime, base.catalog.state_in_log)
    exists = base.catalog.partition_exists
    servicer = ShareCoordinator(host, states, storage.leases, exists, storage.keys.log)
    base.router.register_local(share_coordinator_pb2_grpc.ShareCoordinatorServiceStub, servicer, servicer)
    return _service(
        "sharebroker.share_coordinator.v1.ShareCoordinatorService", servicer, share_coordinator_pb2_grpc
    )


async def group_coordinator(base: BrokerContext, stack: AsyncExitStack) -> list[Service]:
    """Starts the group coordinator, the transaction coordinator and the catalog."""
    config = GroupCoordinatorConfig.of(base.settings.config)
    group_cleanup = Cleanup(base.router)
    stack.push_async_callback(group_cleanup.stop)
    base.catalog.add_observer(group_cleanup.metadata_changed)

    host = make_group_host(base.storage.log, config, base.catalog)
    ports = GroupPorts(
        base.catalog,
        base.persister,
        LeaderLogEnds(base.router),
        group_cleanup.member_left,
        group_cleanup.state_changed,
        CoordinatorCheck(base.router, base.catalog),
    )
    groups = GroupCoordinator(host, config, ports)
    await host.start(base.holder, groups.perform)
    stack.push_async_callback(host.stop)
    stack.push_async_callback(groups.close)
    metrics = groups.metrics(base.most_series, partial(_retention_ms, base))
    base.observability.metrics.add(metrics.families)
    base.observability.metrics.refreshes.append(metrics.refresh)
    catalog_host = make_catalog_host(base.storage.log, config, base.catalog)
    base.hosts.extend((host, catalog_host))
    await catalog_host.start(base.holder)
    base.rechecks.extend((host.recheck, catalog_host.recheck))
    stack.push_async_callback(catalog_host.stop)
    cluster = CatalogServicer(catalog_host, config.cluster_id, base.catalog)
    _follow_upstream(base, catalog_host, stack)
    addresses = "" if base.settings.upstream is None else base.settings.upstream.addresses
    group_cleanup.start(cluster.name_cluster(new_levels(base.settings.features), addresses))
    if (first := base.settings.first_user) is not None:
        group_cleanup.start(cluster.create_user(first))
        base.observability.health.missing.append(partial(_missing_user, base.catalog, first.user))
    base.router.register_local(group_coordinator_pb2_grpc.GroupCoordinatorServiceStub, groups, groups)
    base.router.register_local(cluster_pb2_grpc.ClusterServiceStub, cluster)
    return [
        await _transaction_coordinator(base, config, stack),
        _service(
            "sharebroker.group_coordinator.v1.GroupCoordinatorService", groups, group_coordinator_pb2_grpc
        ),
        _service("sharebroker.cluster.v1.ClusterService", cluster, cluster_pb2_grpc),
    ]


def _retention_ms(base: BrokerContext, name: str) -> int:
    """Returns the age at which the records of a topic are deleted; -1 if they are not, or it is unknown."""
    topic = base.catalog.topic(name)
    if topic is None:
        return -1
    if not topic.upstream:
        return base.catalog.topic_config(topic).retention_ms
    return -1 if base.upstream is None else base.upstream.retention_ms(name)


def _follow_upstream(base: BrokerContext, host: CatalogHost | None, stack: AsyncExitStack) -> None:
    """Follows the topics of the cluster that has the records; the owner of the catalog stores them."""
    if base.upstream is None or base.settings.upstream is None:
        return
    topics = UpstreamCatalog(host, base.catalog, base.upstream, base.settings.upstream)
    stack.push_async_callback(end, [asyncio.create_task(topics.run(), name="upstream topics")])


def _missing_user(catalog: MetadataCache, user: str) -> list[str]:
    """Returns the first user until it exists here: before, its clients cannot authenticate."""
    return [] if catalog.catalog.users.is_super_user(user) else [f"the user {user}"]


async def _transaction_coordinator(
    base: BrokerContext, config: GroupCoordinatorConfig, stack: AsyncExitStack
) -> Service:
    host = make_transaction_host(base.storage.log, config, base.catalog)
    base.hosts.append(host)
    coordinator = TransactionCoordinator(host, config, RoutedMarkers(base.router, base.catalog))
    await host.start(base.holder, coordinator.perform)
    base.rechecks.append(host.recheck)
    stack.push_async_callback(host.stop)
    stack.push_async_callback(coordinator.close)
    base.router.register_local(
        transaction_coordinator_pb2_grpc.TransactionCoordinatorServiceStub, coordinator
    )
    return _service(
        "sharebroker.transaction_coordinator.v1.TransactionCoordinatorService",
        coordinator,
        transaction_coordinator_pb2_grpc,
    )


async def share_partition_leader(base: BrokerContext, stack: AsyncExitStack) -> list[Service]:
    """Starts the share-partition leader."""
    if GROUP_COORDINATOR not in base.settings.roles:
        _follow_upstream(base, None, stack)
    state_services: list[Service] = []
    if base.router.local_calls(share_coordinator_pb2_grpc.ShareCoordinatorServiceStub) is None:
        # Without the coordinator's role the host owns no shard: this process has the state of its logs only.
        config = ShareCoordinatorConfig.of(base.settings.config)
        state_services.append(_share_state(base, make_share_host(base.storage.log, config)))
    states = base.router.local_calls(share_coordinator_pb2_grpc.ShareCoordinatorServiceStub).states
    leadership = Leadership(
        base.holder,
        base.storage.records,
        base.persister,
        base.catalog,
        states,
        upstream=_upstream_logs(base, stack),
    )
    states.claim = leadership.led
    stack.push_async_callback(leadership.close)
    base.observability.metrics.add(LeaderMetrics(leadership, base.most_series).families)
    base.rechecks.append(leadership.recheck)
    exhausted_records = ExhaustedRecordsLogger(leadership.counters)
    exhausted_records.start()
    stack.push_async_callback(exhausted_records.stop)
    interval = base.settings.config.log_retention_check_interval_ms / 1000
    retention = RetentionTask(leadership, base.router, interval)
    retention.start()
    stack.push_async_callback(retention.stop)
    counts = LetterCounts(base.most_series)
    letter_settings = CatalogLetterSettings(base.catalog, base.router)
    mover = DeadLetterMover(base.router, letter_settings, counts, clients=leadership.clients)
    counts.archiving = mover.partitions
    leadership.archiving = mover.add
    base.observability.metrics.add(counts.families)
    stack.push_async_callback(mover.stop)
    breaker = CircuitBreaker(leadership.counters.all, CatalogGroups(base.catalog, base.router))
    breaker.start()
    stack.push_async_callback(breaker.stop)
    base.observability.metrics.add(breaker.families)
    base.catalog.add_observer(leadership.metadata_changed)
    check = CoordinatorCheck(base.router, base.catalog)
    servicer = SharePartitionLeaderServicer(leadership, base.catalog, check)
    base.router.register_local(
        share_partition_leader_pb2_grpc.SharePartitionLeaderServiceStub, servicer, servicer.calls
    )
    return [
        *state_services,
        _service(
            "sharebroker.share_partition_leader.v1.SharePartitionLeaderService",
            servicer,
            share_partition_leader_pb2_grpc,
        ),
    ]


def _upstream_logs(base: BrokerContext, stack: AsyncExitStack) -> UpstreamLogs | None:
    if base.upstream is None or base.settings.upstream is None:
        return None
    properties = base.settings.upstream.properties
    fetch = FetchSettings(
        max_wait_ms=properties.fetch_max_wait_ms,
        min_bytes=properties.fetch_min_bytes,
        partition_bytes=properties.partition_bytes,
        max_bytes=properties.response_bytes,
    )
    logs = UpstreamLogs(base.upstream, base.storage.records, ReadSettings(fetch))
    stack.push_async_callback(logs.close)
    base.observability.metrics.add(logs.counters.families)
    return logs


async def gateway(base: BrokerContext, stack: AsyncExitStack) -> list[Service]:
    """Starts the gateway with its gRPC services and, if configured, the Kafka listener."""
    context = Gateway(base.router, base.catalog, base.settings.config, base.access.authorizer)
    base.catalog.add_access_observer(context.rechecks.repeat)
    base.drains.append(context.stop)
    base.observability.metrics.add(partial(gateway_families, context))
    if base.settings.proxy and base.settings.roles.isdisjoint({GROUP_COORDINATOR, LEADER}):
        _follow_upstream(base, None, stack)
    if base.kafka is not None:
        _open_kafka(base, base.kafka, context)
    reaper = SessionReaper(context)
    reaper.start()
    stack.push_async_callback(reaper.stop)
    return services(context)


def _open_kafka(base: BrokerContext, server: KafkaServer, context: Gateway) -> None:
    # Each request reads the live members: the attribute is bound, so that this calls no Python function.
    live_members = LiveMembers(base.holder, PortProbe().is_refused)
    internal = internal_partitions(base.settings.config)
    partitions = partial(partition_count, internal, base.catalog.partitions)
    brokers = Brokers(
        live_members, base.holder.member, base.storage.leases, base.router.group_shard, partitions
    )
    authenticator = base.access.authentication.authenticator
    sasl = None if authenticator is None else SaslSettings.of(authenticator, base.settings.config)
    listener = KafkaListener(context, brokers, APIS, sasl=sasl)
    if base.settings.proxy and base.upstream is not None:
        # Imported here: other servers start without these modules.
        from sharebroker_server.gateway.kafka.forwarding.table import pass_to

        pass_to(base.upstream, listener)
    listener.throttle = ClientThrottle(context.quotas)
    server.open(listener, base.settings.config)
    base.observability.metrics.add(listener.families)
    base.observability.metrics.add(server.families)


Start = Callable[[BrokerContext, AsyncExitStack], Awaitable[list[Service]]]

ORDER: Final[dict[str, Start]] = {
    SHARE_COORDINATOR: share_coordinator,
    GROUP_COORDINATOR: group_coordinator,
    LEADER: share_partition_leader,
    GATEWAY: gateway,
}
"""The start function of each role, in start order: roles that other roles call come first."""
