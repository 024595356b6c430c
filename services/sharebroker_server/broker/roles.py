"""The services of each role, wired to the foundation. The one place that knows several services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

from sharebroker_protocol.cluster.v1 import cluster_pb2_grpc
from sharebroker_protocol.gateway.v1 import admin_pb2_grpc, plan_pb2_grpc, produce_pb2_grpc, share_pb2_grpc
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2_grpc
from sharebroker_protocol.keda import externalscaler_pb2_grpc
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2_grpc
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2_grpc
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2_grpc
from sharebroker_server.broker.cleanup import Departures
from sharebroker_server.broker.context import Foundation
from sharebroker_server.catalog.internal_topics import internal_partitions
from sharebroker_server.cluster.router import GATEWAY, GROUP_COORDINATOR, LEADER, SHARE_COORDINATOR
from sharebroker_server.cluster.transaction_check import CoordinatorCheck
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.grpc.admin_servicer import AdminServicer
from sharebroker_server.gateway.grpc.keda_scaler import ScalerServicer
from sharebroker_server.gateway.grpc.plan_servicer import PlanServicer
from sharebroker_server.gateway.grpc.produce_servicer import ProduceServicer
from sharebroker_server.gateway.grpc.share_servicer import ShareServicer
from sharebroker_server.gateway.kafka.cluster_view.brokers import Brokers
from sharebroker_server.gateway.kafka.cluster_view.live_members import Announced
from sharebroker_server.gateway.kafka.dispatch.call import Door
from sharebroker_server.gateway.metrics import gateway_families
from sharebroker_server.gateway.share.session_reaper import IdleSessions
from sharebroker_server.group_coordinator.clients.group_markers import AllMarkers, GroupMarkers
from sharebroker_server.group_coordinator.clients.log_ends import LeaderLogEnds
from sharebroker_server.group_coordinator.clients.markers import LeaderMarkers
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.machine import GroupCounts
from sharebroker_server.group_coordinator.service.cluster import Cluster, make_catalog_host
from sharebroker_server.group_coordinator.service.deferred_replies import Answers
from sharebroker_server.group_coordinator.service.servicer import GroupCoordinator
from sharebroker_server.group_coordinator.service.servicer import Ports as GroupPorts
from sharebroker_server.group_coordinator.service.shards import make_host as make_group_host
from sharebroker_server.group_coordinator.service.transaction_shards import make_transaction_host
from sharebroker_server.group_coordinator.service.transactions import TransactionCoordinator
from sharebroker_server.leases.failure_detector import Doors
from sharebroker_server.rpc.server import Service
from sharebroker_server.share_coordinator.config import ShareCoordinatorConfig
from sharebroker_server.share_coordinator.service.deleted_topics import DeletedTopicCleanup
from sharebroker_server.share_coordinator.service.servicer import ShareCoordinator, make_host
from sharebroker_server.share_partition_leader.leadership.leadership import Leadership, Ports
from sharebroker_server.share_partition_leader.log.retention import RetentionTask
from sharebroker_server.share_partition_leader.metrics.exhausted_records_log import ExhaustedRecordsLogger
from sharebroker_server.share_partition_leader.metrics.metrics import LeaderMetrics
from sharebroker_server.share_partition_leader.requests.local_calls import LocalShareCalls
from sharebroker_server.share_partition_leader.requests.servicer import SharePartitionLeaderServicer


async def share_coordinator(base: Foundation, stack: AsyncExitStack) -> list[Service]:
    """Keeps share state."""
    config = ShareCoordinatorConfig.of(base.settings.config)
    host = make_host(base.log, config)
    base.hosts.append(host)
    await host.start(base.holder)
    base.rechecks.append(host.recheck)
    stack.push_async_callback(host.stop)

    def exists(topic_id: str, partition: int) -> bool:
        topic = base.catalog.topic_by_id(topic_id)
        return topic is not None and 0 <= partition < topic.partitions

    interval = base.settings.config.share_coordinator_state_topic_prune_interval_ms / 1000
    cleanup = DeletedTopicCleanup(host, base.catalog.is_deleted, interval, config.write_timeout)
    cleanup.start()
    stack.push_async_callback(cleanup.stop)
    servicer = ShareCoordinator(host, config, exists, base.keys.log)
    base.router.register_local(share_coordinator_pb2_grpc.ShareCoordinatorServiceStub, servicer)
    base.persister.register_local(base.holder.member.owner, servicer)
    return [
        Service(
            "sharebroker.share_coordinator.v1.ShareCoordinatorService",
            servicer,
            share_coordinator_pb2_grpc.add_ShareCoordinatorServiceServicer_to_server,
        )
    ]


async def share_partition_leader(base: Foundation, stack: AsyncExitStack) -> list[Service]:
    """Leads partitions."""
    leadership = Leadership(Ports(base.holder, base.records, base.persister, base.catalog))
    stack.push_async_callback(leadership.close)
    base.watching.metrics.add(LeaderMetrics(leadership, base.most_series).families)
    base.rechecks.append(leadership.recheck)
    exhausted_records = ExhaustedRecordsLogger(leadership.counters)
    exhausted_records.start()
    stack.push_async_callback(exhausted_records.stop)
    interval = base.settings.config.log_retention_check_interval_ms / 1000
    retention = RetentionTask(leadership, base.router, interval)
    retention.start()
    stack.push_async_callback(retention.stop)
    base.catalog.add_observer(leadership.metadata_changed)
    check = CoordinatorCheck(base.router, base.catalog)
    servicer = SharePartitionLeaderServicer(leadership, base.catalog, check)
    base.router.register_local(share_partition_leader_pb2_grpc.SharePartitionLeaderServiceStub, servicer)
    base.router.register_share_calls(LocalShareCalls(leadership))
    return [
        Service(
            "sharebroker.share_partition_leader.v1.SharePartitionLeaderService",
            servicer,
            share_partition_leader_pb2_grpc.add_SharePartitionLeaderServiceServicer_to_server,
        )
    ]


async def group_coordinator(base: Foundation, stack: AsyncExitStack) -> list[Service]:
    """Keeps groups, transactions, and the catalog of topics and configurations."""
    config = GroupCoordinatorConfig.of(base.settings.config)
    departures = Departures(base.router)
    stack.push_async_callback(departures.stop)
    base.catalog.add_observer(departures.metadata_changed)

    def fenced(group_id: str, member_id: str) -> None:
        groups.fenced(group_id, member_id)  # it is made of the host, and the host tells it

    answers, counts = Answers(), GroupCounts()
    host = make_group_host(base.log, config, base.catalog, fenced, answers, counts)
    await host.start(base.holder)
    stack.push_async_callback(host.stop)
    ports = GroupPorts(
        base.catalog,
        base.persister,
        LeaderLogEnds(base.router),
        departures.member_left,
        departures.state_changed,
        answers,
        CoordinatorCheck(base.router, base.catalog),
    )
    groups = GroupCoordinator(host, config, ports)
    stack.push_async_callback(groups.close)
    metrics = groups.metrics(base.most_series, counts)
    base.watching.metrics.add(metrics.families)
    base.watching.metrics.refreshes.append(metrics.refresh)
    catalog_host = make_catalog_host(base.log, config, base.catalog)
    base.hosts.extend((host, catalog_host))
    await catalog_host.start(base.holder)
    base.rechecks.extend((host.recheck, catalog_host.recheck))
    stack.push_async_callback(catalog_host.stop)
    cluster = Cluster(catalog_host, config, base.catalog)
    departures.start(cluster.name_cluster())
    base.router.register_local(group_coordinator_pb2_grpc.GroupCoordinatorServiceStub, groups)
    base.router.register_members(groups)
    base.router.register_local(cluster_pb2_grpc.ClusterServiceStub, cluster)
    return [
        await _transaction_coordinator(base, config, stack),
        Service(
            "sharebroker.group_coordinator.v1.GroupCoordinatorService",
            groups,
            group_coordinator_pb2_grpc.add_GroupCoordinatorServiceServicer_to_server,
        ),
        Service(
            "sharebroker.cluster.v1.ClusterService",
            cluster,
            cluster_pb2_grpc.add_ClusterServiceServicer_to_server,
        ),
    ]


async def _transaction_coordinator(
    base: Foundation, config: GroupCoordinatorConfig, stack: AsyncExitStack
) -> Service:
    def ending(transactional_id: str) -> None:
        coordinator.ending(transactional_id)  # it is made of the host, and the host tells it

    host = make_transaction_host(base.log, config, base.catalog, ending)
    base.hosts.append(host)
    markers = AllMarkers(LeaderMarkers(base.router, base.catalog), GroupMarkers(base.router))
    coordinator = TransactionCoordinator(host, config, markers)
    await host.start(base.holder)
    base.rechecks.append(host.recheck)
    stack.push_async_callback(host.stop)
    stack.push_async_callback(coordinator.close)
    base.router.register_local(
        transaction_coordinator_pb2_grpc.TransactionCoordinatorServiceStub, coordinator
    )
    return Service(
        "sharebroker.transaction_coordinator.v1.TransactionCoordinatorService",
        coordinator,
        transaction_coordinator_pb2_grpc.add_TransactionCoordinatorServiceServicer_to_server,
    )


async def gateway(base: Foundation, stack: AsyncExitStack) -> list[Service]:
    """The doors for clients; keeps nothing durable."""
    door = Gateway(base.router, base.catalog, base.settings.config)
    base.drains.append(door.stop)
    base.watching.metrics.add(partial(gateway_families, door))
    if base.kafka is not None:
        me, router = base.holder.member, base.router
        internal = internal_partitions(base.settings.config)

        def partitions(topic_id: str) -> int:
            return internal.get(topic_id) or base.catalog.partitions(topic_id)

        announced = Announced(lambda: router.members, Doors().refused)
        brokers = Brokers(announced, me, base.leases, router.group_shard, partitions)
        kafka = Door(door, brokers, base.settings.features)
        base.kafka.open(kafka, base.settings.config)
        base.watching.metrics.add(kafka.families)
        base.watching.metrics.add(base.kafka.families)
    idle = IdleSessions(door)
    idle.start()
    stack.push_async_callback(idle.stop)
    return [
        Service(
            "sharebroker.gateway.v1.ShareService",
            ShareServicer(door),
            share_pb2_grpc.add_ShareServiceServicer_to_server,
        ),
        Service(
            "sharebroker.gateway.v1.ProduceService",
            ProduceServicer(door),
            produce_pb2_grpc.add_ProduceServiceServicer_to_server,
        ),
        Service(
            "sharebroker.gateway.v1.PlanService",
            PlanServicer(door),
            plan_pb2_grpc.add_PlanServiceServicer_to_server,
        ),
        Service(
            "externalscaler.ExternalScaler",
            ScalerServicer(door),
            externalscaler_pb2_grpc.add_ExternalScalerServicer_to_server,
        ),
        Service(
            "sharebroker.gateway.v1.AdminService",
            AdminServicer(door),
            admin_pb2_grpc.add_AdminServiceServicer_to_server,
        ),
    ]


Start = Callable[[Foundation, AsyncExitStack], Awaitable[list[Service]]]

ORDER: dict[str, Start] = {
    SHARE_COORDINATOR: share_coordinator,
    GROUP_COORDINATOR: group_coordinator,
    LEADER: share_partition_leader,
    GATEWAY: gateway,
}
"""How each role is started, those first that others call."""
