"""CreateAcls: the owner of the catalog decides; ALTER of the cluster is required."""

from __future__ import annotations

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.access_view import AccessView
from sharebroker_server.catalog.acls import AclRecord
from sharebroker_server.kafka_wire.messages import CreateAclsRequest, CreateAclsResponse
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl import binding
from sharebroker_server.security.acl_authorizer import AclAuthorizer
from tests.unit.gateway.kafka.api.harness import Harness

_Creation = CreateAclsRequest.AclCreation
REQUEST = CreateAclsRequest(
    creations=[
        _Creation(
            resource_type=kind,
            resource_name="orders",
            resource_pattern_type=4,
            principal="User:alice",
            host="*",
            operation=3,
            permission_type=3,
        )
        for kind in (2, 99)
    ]
)
CREATED = binding(2, "orders", 4, "User:alice", "*", 3, 3)


@pytest.fixture
def secured(harness: Harness) -> Harness:
    """A cluster whose super users are anonymous."""
    view = AccessView(harness.gateway.catalog)
    harness.gateway.authorizer = AclAuthorizer(view, super_users=["User:ANONYMOUS"])
    return harness


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_each_acl_has_its_own_result(secured: Harness, version: int) -> None:
    rejected = wire(ErrorCode.INVALID_REQUEST)
    results = [
        pb.CreateAclsResponse.Result(),
        pb.CreateAclsResponse.Result(error_code=rejected, error_message="no"),
    ]
    secured.services.reply("CreateAcls", pb.CreateAclsResponse(results=results))
    secured.gateway.catalog.catalog.apply(AclRecord(CREATED), 9)
    response = await secured.call(version, REQUEST, CreateAclsResponse)
    assert [(one.error_code, one.error_message) for one in response.results] == [
        (ErrorCode.NONE, None),
        (ErrorCode.INVALID_REQUEST, "no"),
    ]
    sent = secured.services.only("CreateAcls").creations
    assert [(one.resource_type, one.resource_name, one.resource_pattern_type) for one in sent] == [
        (2, "orders", 4),
        (99, "orders", 4),
    ]


@pytest.mark.parametrize(
    ("enabled", "code"),
    [(True, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), (False, ErrorCode.SECURITY_DISABLED)],
)
async def test_a_refused_request_has_an_error_for_each_acl(
    harness: Harness, enabled: bool, code: ErrorCode
) -> None:
    if enabled:
        harness.gateway.authorizer = AclAuthorizer(AccessView(harness.gateway.catalog))
    response = await harness.call(3, REQUEST, CreateAclsResponse)
    assert [one.error_code for one in response.results] == [code, code]
    assert not harness.services.requests
