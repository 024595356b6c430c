"""Starts the share-partition leader."""

from __future__ import annotations

from contextlib import AsyncExitStack

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2_grpc
from sharebroker_server.broker.context import BrokerContext
from sharebroker_server.routing.transaction_check import CoordinatorCheck
from sharebroker_server.rpc.server import Service
from sharebroker_server.share_partition_leader.leadership.leadership import Leadership, Ports
from sharebroker_server.share_partition_leader.log.retention import RetentionTask
from sharebroker_server.share_partition_leader.metrics.exhausted_records_log import ExhaustedRecordsLogger
from sharebroker_server.share_partition_leader.metrics.metrics import LeaderMetrics
from sharebroker_server.share_partition_leader.requests.servicer import SharePartitionLeaderServicer


async def share_partition_leader(base: BrokerContext, stack: AsyncExitStack) -> list[Service]:
    """Starts the share-partition leader."""
    leadership = Leadership(Ports(base.holder, base.records, base.persister, base.catalog))
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
    base.catalog.add_observer(leadership.metadata_changed)
    check = CoordinatorCheck(base.router, base.catalog)
    servicer = SharePartitionLeaderServicer(leadership, base.catalog, check)
    base.router.register_local(
        share_partition_leader_pb2_grpc.SharePartitionLeaderServiceStub, servicer, servicer.calls
    )
    return [
        Service(
            "sharebroker.share_partition_leader.v1.SharePartitionLeaderService",
            servicer,
            share_partition_leader_pb2_grpc.add_SharePartitionLeaderServiceServicer_to_server,
        )
    ]
