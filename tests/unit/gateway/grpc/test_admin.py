"""RPCs of AdminService: without access control every request is served."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2, admin_pb2_grpc
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_server.gateway.admin.configs import DESCRIBED_AT_ONCE, MAX_DESCRIBED
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.kafka.api.test_many_entries import CountedTurns


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


async def test_many_configs_are_described_in_portions(harness: Harness) -> None:
    harness.gateway.turns = turns = CountedTurns()
    admin: Any = admin_pb2_grpc.AdminServiceStub(harness.channel)
    one = admin_pb2.DescribeConfigsRequest.Resource(resource_type=32, resource_name="g")  # type: ignore[arg-type]
    found = await admin.DescribeConfigs(admin_pb2.DescribeConfigsRequest(resources=[one] * 40))
    assert len(found.results) == 40
    assert turns.taken >= 40 / DESCRIBED_AT_ONCE
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await admin.DescribeConfigs(admin_pb2.DescribeConfigsRequest(resources=[one] * (MAX_DESCRIBED + 1)))
    assert from_rpc_error(failure.value).code is ErrorCode.INVALID_REQUEST
