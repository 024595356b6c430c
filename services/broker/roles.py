"""The services of each role, wired to the foundation. The one place that knows several services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from libs.record_log.redis import RedisRecordStore
from libs.rpc.router import GATEWAY, LEADER, SHARE_COORDINATOR
from libs.rpc.server import Service
from services.broker.foundation import Foundation
from services.gateway.service.admin_servicer import AdminServicer
from services.gateway.service.gateway import Gateway
from services.gateway.service.produce_servicer import ProduceServicer
from services.gateway.service.share_servicer import ShareServicer
from services.share_coordinator.config import ShareCoordinatorConfig
from services.share_coordinator.service.servicer import ShareCoordinator, make_host
from services.share_partition_leader.service.leadership import Leadership, Ports
from services.share_partition_leader.service.retention import RetentionTask
from services.share_partition_leader.service.servicer import SharePartitionLeaderServicer
from sharebroker.gateway.v1 import admin_pb2_grpc, produce_pb2_grpc, share_pb2_grpc
from sharebroker.share_coordinator.v1 import share_coordinator_pb2_grpc
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2_grpc


async def share_coordinator(base: Foundation, stack: AsyncExitStack) -> list[Service]:
    """Keeps share state."""
    config = ShareCoordinatorConfig.of(base.settings.config)
    host = make_host(base.log, config)
    await host.start(base.holder)
    stack.push_async_callback(host.stop)

    def exists(topic_id: str, partition: int) -> bool:
        topic = base.catalog.topic_by_id(topic_id)
        return topic is not None and 0 <= partition < topic.partitions

    servicer = ShareCoordinator(host, config, exists, base.keys.log)
    base.router.register_local(share_coordinator_pb2_grpc.ShareCoordinatorServiceStub, servicer)
    return [
        Service(
            "sharebroker.share_coordinator.v1.ShareCoordinatorService",
            servicer,
            share_coordinator_pb2_grpc.add_ShareCoordinatorServiceServicer_to_server,
        )
    ]


async def share_partition_leader(base: Foundation, stack: AsyncExitStack) -> list[Service]:
    """Leads partitions."""
    leadership = Leadership(Ports(base.holder, RedisRecordStore(base.link), base.persister, base.catalog))
    stack.push_async_callback(leadership.close)
    interval = base.settings.config.log_retention_check_interval_ms / 1000
    retention = RetentionTask(leadership, base.router, interval)
    retention.start()
    stack.push_async_callback(retention.stop)
    base.catalog.listen(leadership.metadata_changed)
    servicer = SharePartitionLeaderServicer(leadership, base.catalog)
    base.router.register_local(share_partition_leader_pb2_grpc.SharePartitionLeaderServiceStub, servicer)
    return [
        Service(
            "sharebroker.share_partition_leader.v1.SharePartitionLeaderService",
            servicer,
            share_partition_leader_pb2_grpc.add_SharePartitionLeaderServiceServicer_to_server,
        )
    ]


async def gateway(base: Foundation, stack: AsyncExitStack) -> list[Service]:
    """The door for clients; keeps nothing durable."""
    door = Gateway(base.router, base.catalog, base.settings.config)
    stack.push_async_callback(door.stop)
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
            "sharebroker.gateway.v1.AdminService",
            AdminServicer(door),
            admin_pb2_grpc.add_AdminServiceServicer_to_server,
        ),
    ]


Start = Callable[[Foundation, AsyncExitStack], Awaitable[list[Service]]]

ORDER: dict[str, Start] = {
    SHARE_COORDINATOR: share_coordinator,
    LEADER: share_partition_leader,
    GATEWAY: gateway,
}
"""How each role is started, those first that others call."""
