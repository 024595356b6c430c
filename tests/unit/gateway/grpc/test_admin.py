"""RPCs of AdminService: without access control every request is served."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.gateway.v1 import admin_pb2, admin_pb2_grpc
from tests.unit.gateway.conftest import Harness


async def test_metadata_and_coordinators_are_returned(harness: Harness) -> None:
    admin: Any = admin_pb2_grpc.AdminServiceStub(harness.channel)
    described = await admin.Metadata(admin_pb2.MetadataRequest())
    assert [topic.name for topic in described.topics] == ["flights"]
    found = await admin.FindCoordinator(admin_pb2.FindCoordinatorRequest(coordinator_keys=["g"]))
    assert [(one.key, one.node_id) for one in found.coordinators] == [("g", 1)]


async def test_configs_and_users_are_described(harness: Harness) -> None:
    admin: Any = admin_pb2_grpc.AdminServiceStub(harness.channel)
    request = admin_pb2.DescribeConfigsRequest(
        resources=[admin_pb2.DescribeConfigsRequest.Resource(resource_type=32, resource_name="g")]  # type: ignore[arg-type]
    )
    (result,) = (await admin.DescribeConfigs(request)).results
    assert result.configs
    users = await admin.DescribeUserScramCredentials(admin_pb2.DescribeUserScramCredentialsRequest())
    assert not users.results
