"""The public gRPC services of a gateway."""

from __future__ import annotations

from types import ModuleType

from sharebroker_protocol.gateway.v1 import (
    admin_pb2_grpc,
    dead_letters_pb2_grpc,
    plan_pb2_grpc,
    produce_pb2_grpc,
    share_pb2_grpc,
)
from sharebroker_protocol.keda import externalscaler_pb2_grpc
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.grpc.admin import AdminServicer
from sharebroker_server.gateway.grpc.dead_letters import DeadLetterServicer
from sharebroker_server.gateway.grpc.keda_scaler import ScalerServicer
from sharebroker_server.gateway.grpc.plan import PlanServicer
from sharebroker_server.gateway.grpc.produce import ProduceServicer
from sharebroker_server.gateway.grpc.request_time import charge_unary_calls
from sharebroker_server.gateway.grpc.share import ShareServicer
from sharebroker_server.rpc.server import Service


def services(gateway: Gateway) -> list[Service]:
    """Returns the services, with their full names."""
    made = [
        _service("sharebroker.gateway.v1.ShareService", ShareServicer(gateway), share_pb2_grpc),
        _service("sharebroker.gateway.v1.ProduceService", ProduceServicer(gateway), produce_pb2_grpc),
        _service("sharebroker.gateway.v1.PlanService", PlanServicer(gateway), plan_pb2_grpc),
        _service("externalscaler.ExternalScaler", ScalerServicer(gateway), externalscaler_pb2_grpc),
        _service("sharebroker.gateway.v1.AdminService", AdminServicer(gateway), admin_pb2_grpc),
        _service(
            "sharebroker.gateway.v1.DeadLetterService", DeadLetterServicer(gateway), dead_letters_pb2_grpc
        ),
    ]
    for service in made:
        charge_unary_calls(gateway, service.name, service.servicer)
    return made


def _service(name: str, servicer: object, generated: ModuleType) -> Service:
    return Service(name, servicer, getattr(generated, f"add_{name.rpartition('.')[2]}Servicer_to_server"))
