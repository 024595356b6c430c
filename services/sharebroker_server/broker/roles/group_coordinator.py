"""Starts the group coordinator, with the catalog."""

from __future__ import annotations

from contextlib import AsyncExitStack

from sharebroker_protocol.cluster.v1 import cluster_pb2_grpc
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2_grpc
from sharebroker_server.broker.cleanup import Cleanup
from sharebroker_server.broker.context import BrokerContext
from sharebroker_server.broker.roles.transaction_coordinator import transaction_coordinator
from sharebroker_server.cluster.transaction_check import CoordinatorCheck
from sharebroker_server.group_coordinator.clients.log_ends import LeaderLogEnds
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.service.catalog import CatalogServicer, make_catalog_host
from sharebroker_server.group_coordinator.service.servicer import GroupCoordinator
from sharebroker_server.group_coordinator.service.servicer import Ports as GroupPorts
from sharebroker_server.group_coordinator.service.shards import make_host as make_group_host
from sharebroker_server.rpc.server import Service


async def group_coordinator(base: BrokerContext, stack: AsyncExitStack) -> list[Service]:
    """Starts the group coordinator, the transaction coordinator and the catalog."""
    config = GroupCoordinatorConfig.of(base.settings.config)
    group_cleanup = Cleanup(base.router)
    stack.push_async_callback(group_cleanup.stop)
    base.catalog.add_observer(group_cleanup.metadata_changed)

    host = make_group_host(base.log, config, base.catalog)
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
    metrics = groups.metrics(base.most_series)
    base.observability.metrics.add(metrics.families)
    base.observability.metrics.refreshes.append(metrics.refresh)
    catalog_host = make_catalog_host(base.log, config, base.catalog)
    base.hosts.extend((host, catalog_host))
    await catalog_host.start(base.holder)
    base.rechecks.extend((host.recheck, catalog_host.recheck))
    stack.push_async_callback(catalog_host.stop)
    cluster = CatalogServicer(catalog_host, config, base.catalog)
    group_cleanup.start(cluster.name_cluster())
    base.router.register_local(group_coordinator_pb2_grpc.GroupCoordinatorServiceStub, groups, groups)
    base.router.register_local(cluster_pb2_grpc.ClusterServiceStub, cluster)
    return [
        await transaction_coordinator(base, config, stack),
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
