"""DescribeAcls: the ACLs of the catalog by resource; DESCRIBE of the cluster is required."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.access_view import AccessView
from sharebroker_server.catalog.acls import AclRecord
from sharebroker_server.kafka_wire.messages import DescribeAclsRequest, DescribeAclsResponse
from sharebroker_server.security.acl import binding
from sharebroker_server.security.acl_authorizer import AclAuthorizer
from tests.unit.gateway.kafka.api.harness import Harness

ACLS = [
    binding(2, "orders", 3, "User:alice", "*", 3, 3),
    binding(2, "orders", 3, "User:bob", "10.0.0.7", 4, 2),
    binding(3, "workers", 4, "User:alice", "*", 3, 3),
]


@pytest.fixture
def secured(harness: Harness) -> Harness:
    """A cluster with ACLs, whose super users are anonymous."""
    catalog = harness.gateway.catalog
    for acl in ACLS:
        catalog.catalog.apply(AclRecord(acl), catalog.catalog.position + 1)
    harness.gateway.authorizer = AclAuthorizer(AccessView(catalog), super_users=["User:ANONYMOUS"])
    return harness


def wanted(**fields: int | str) -> DescribeAclsRequest:
    names: dict[str, int | str | None] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return DescribeAclsRequest(**names | fields)  # type: ignore[arg-type]  # texts and numbers


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acls_are_listed_by_resource(secured: Harness, version: int) -> None:
    response = await secured.call(version, wanted(), DescribeAclsResponse)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert [
        (one.resource_type, one.resource_name, one.pattern_type, [acl.principal for acl in one.acls])
        for one in response.resources
    ] == [(2, "orders", 3, ["User:alice", "User:bob"]), (3, "workers", 4, ["User:alice"])]
    acl = response.resources[0].acls[1]
    assert (acl.host, acl.operation, acl.permission_type) == ("10.0.0.7", 4, 2)


async def test_a_filter_selects(secured: Harness) -> None:
    request = wanted(resource_name_filter="workers-7", pattern_type_filter=2)
    response = await secured.call(3, request, DescribeAclsResponse)
    assert [one.resource_name for one in response.resources] == ["workers"]


async def test_unknown_numbers_are_rejected(secured: Harness) -> None:
    response = await secured.call(3, wanted(operation=99), DescribeAclsResponse)
    assert (response.error_code, response.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Unknown entryFilter.",
    )


async def test_others_are_denied(secured: Harness) -> None:
    secured.gateway.authorizer = AclAuthorizer(AccessView(secured.gateway.catalog))
    response = await secured.call(3, wanted(), DescribeAclsResponse)
    assert (response.error_code, response.resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


async def test_without_an_authorizer_access_control_is_disabled(harness: Harness) -> None:
    response = await harness.call(3, wanted(), DescribeAclsResponse)
    assert response.error_code == ErrorCode.SECURITY_DISABLED
    assert response.error_message == "No Authorizer is configured on the broker"
