"""Starts the transaction coordinator."""

from __future__ import annotations

from contextlib import AsyncExitStack

from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2_grpc
from sharebroker_server.broker.context import BrokerContext
from sharebroker_server.group_coordinator.clients.markers import AllMarkers, GroupMarkers, LeaderMarkers
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.service.transactions import (
    TransactionCoordinator,
    make_transaction_host,
)
from sharebroker_server.rpc.server import Service


async def transaction_coordinator(
    base: BrokerContext, config: GroupCoordinatorConfig, stack: AsyncExitStack
) -> Service:
    """Starts the transaction coordinator."""
    host = make_transaction_host(base.log, config, base.catalog)
    base.hosts.append(host)
    markers = AllMarkers(LeaderMarkers(base.router, base.catalog), GroupMarkers(base.router))
    coordinator = TransactionCoordinator(host, config, markers)
    await host.start(base.holder, coordinator.perform)
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
