"""Starts the share coordinator."""

from __future__ import annotations

from contextlib import AsyncExitStack

from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2_grpc
from sharebroker_server.broker.context import BrokerContext
from sharebroker_server.rpc.server import Service
from sharebroker_server.share_coordinator.config import ShareCoordinatorConfig
from sharebroker_server.share_coordinator.service.deleted_topics import DeletedTopicCleanup
from sharebroker_server.share_coordinator.service.servicer import ShareCoordinator, make_host


async def share_coordinator(base: BrokerContext, stack: AsyncExitStack) -> list[Service]:
    """Starts the share coordinator."""
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
    base.router.register_local(share_coordinator_pb2_grpc.ShareCoordinatorServiceStub, servicer, servicer)
    return [
        Service(
            "sharebroker.share_coordinator.v1.ShareCoordinatorService",
            servicer,
            share_coordinator_pb2_grpc.add_ShareCoordinatorServiceServicer_to_server,
        )
    ]
