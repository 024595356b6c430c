"""Every RPC has a row in the table of permissions."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

import sharebroker_protocol
from sharebroker_server.security.permissions import CLUSTER_ACTION, NONE, PERMISSIONS, required


def rpcs() -> set[str]:
    """Returns every RPC of every proto, and of gRPC's services that a broker serves."""
    folder = Path(next(iter(sharebroker_protocol.__path__)))
    names = (path.relative_to(folder.parent).with_suffix("").parts for path in folder.rglob("*_pb2.py"))
    modules = [import_module(".".join(parts)) for parts in names]
    return {
        f"/{service.full_name}/{method.name}"
        for module in (*modules, health_pb2, reflection_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def test_every_rpc_has_a_row_and_every_row_an_rpc() -> None:
    assert set(PERMISSIONS) == rpcs()


def test_only_the_gateway_and_grpc_have_public_rpcs() -> None:
    public = {method.split("/")[1] for method, needed in PERMISSIONS.items() if not needed.internal}
    assert public == {
        "sharebroker.gateway.v1.AdminService",
        "sharebroker.gateway.v1.DeadLetterService",
        "sharebroker.gateway.v1.PlanService",
        "sharebroker.gateway.v1.ProduceService",
        "sharebroker.gateway.v1.ShareService",
        "externalscaler.ExternalScaler",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }


def test_an_rpc_without_a_row_is_internal() -> None:
    assert required("/grpc.health.v1.Health/Check") is NONE
    for method in ("/sharebroker.gateway.v1.ShareService/New", "/unknown/Method", ""):
        assert required(method) is CLUSTER_ACTION


def test_only_feature_levels_and_services_of_grpc_need_no_right() -> None:
    free = {method for method, needed in PERMISSIONS.items() if needed == NONE}
    own = {method for method in free if method.startswith("/sharebroker.")}
    assert own == {"/sharebroker.gateway.v1.AdminService/DescribeFeatures"}  # as Kafka's ApiVersions
    assert {method.split("/")[1] for method in free - own} == {
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }


def test_permissions_are_shown_as_text() -> None:
    shown = {method.rpartition("/")[2]: str(needed) for method, needed in PERMISSIONS.items()}
    assert shown["Acquire"] == "READ GROUP, READ TOPIC"
    assert shown["ListGroups"] == "nothing", "the internal RPC of the same name comes last"
    assert str(PERMISSIONS["/sharebroker.gateway.v1.AdminService/ListGroups"]) == (
        "DESCRIBE CLUSTER or DESCRIBE GROUP"
    )
    assert shown["GetMetrics"] == "DESCRIBE GROUP, DESCRIBE TOPIC (if the trigger names a topic)"
