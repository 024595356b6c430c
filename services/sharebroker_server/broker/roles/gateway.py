"""Starts the gateway: its gRPC services and its Kafka listener."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from sharebroker_protocol.gateway.v1 import admin_pb2_grpc, plan_pb2_grpc, produce_pb2_grpc, share_pb2_grpc
from sharebroker_protocol.keda import externalscaler_pb2_grpc
from sharebroker_server.broker.context import BrokerContext
from sharebroker_server.catalog.names import internal_partitions
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.grpc.keda_scaler import ScalerServicer
from sharebroker_server.gateway.grpc.servicers import AdminServicer, PlanServicer, ProduceServicer
from sharebroker_server.gateway.grpc.share import ShareServicer
from sharebroker_server.gateway.kafka.cluster_view.brokers import Brokers
from sharebroker_server.gateway.kafka.cluster_view.live_members import LiveMembers
from sharebroker_server.gateway.kafka.dispatch.api_table import APIS
from sharebroker_server.gateway.kafka.dispatch.call import KafkaListener
from sharebroker_server.gateway.metrics import gateway_families
from sharebroker_server.gateway.share.acknowledge import SessionReaper
from sharebroker_server.leases.failure_detector import PortProbe
from sharebroker_server.rpc.server import Service


async def gateway(base: BrokerContext, stack: AsyncExitStack) -> list[Service]:
    """Starts the gateway with its gRPC services and, if configured, the Kafka listener."""
    context = Gateway(base.router, base.catalog, base.settings.config)
    base.drains.append(context.stop)
    base.observability.metrics.add(partial(gateway_families, context))
    if base.kafka is not None:
        internal = internal_partitions(base.settings.config)

        def partitions(topic_id: str) -> int:
            return internal.get(topic_id) or base.catalog.partitions(topic_id)

        live_members = LiveMembers(partial(getattr, base.holder, "members"), PortProbe().is_refused)
        brokers = Brokers(live_members, base.holder.member, base.leases, base.router.group_shard, partitions)
        kafka = KafkaListener(context, brokers, base.settings.features, APIS)
        base.kafka.open(kafka, base.settings.config)
        base.observability.metrics.add(kafka.families)
        base.observability.metrics.add(base.kafka.families)
    reaper = SessionReaper(context)
    reaper.start()
    stack.push_async_callback(reaper.stop)
    return [
        Service(
            "sharebroker.gateway.v1.ShareService",
            ShareServicer(context),
            share_pb2_grpc.add_ShareServiceServicer_to_server,
        ),
        Service(
            "sharebroker.gateway.v1.ProduceService",
            ProduceServicer(context),
            produce_pb2_grpc.add_ProduceServiceServicer_to_server,
        ),
        Service(
            "sharebroker.gateway.v1.PlanService",
            PlanServicer(context),
            plan_pb2_grpc.add_PlanServiceServicer_to_server,
        ),
        Service(
            "externalscaler.ExternalScaler",
            ScalerServicer(context),
            externalscaler_pb2_grpc.add_ExternalScalerServicer_to_server,
        ),
        Service(
            "sharebroker.gateway.v1.AdminService",
            AdminServicer(context),
            admin_pb2_grpc.add_AdminServiceServicer_to_server,
        ),
    ]
