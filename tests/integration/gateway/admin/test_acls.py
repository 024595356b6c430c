"""ACLs through the gateway: visible and effective after the change, also in another process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_server.config.broker import STANDARD_AUTHORIZER
from tests.support.client import TIMEOUT, Client, connected, rejection, unique
from tests.testkit.brokers import one_process

pytestmark = pytest.mark.xdist_group("acls")  # its tests share a cluster

ALLOW, DENY = pb.ACL_PERMISSION_TYPE_ALLOW, pb.ACL_PERMISSION_TYPE_DENY


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Starts a process with ACLs whose super users are anonymous."""
    options = (f"--set=authorizer.class.name={STANDARD_AUTHORIZER}", "--set=super.users=User:ANONYMOUS")
    with one_process(*options) as cluster:
        yield cluster.address


@pytest.fixture
async def client(address: str) -> AsyncIterator[Client]:
    async with connected(address) as made:
        yield made


def creation(name: str, permission: pb.AclPermissionType.ValueType = ALLOW) -> pb.CreateAclsRequest.Creation:
    return pb.CreateAclsRequest.Creation(
        resource_type=pb.ACL_RESOURCE_TYPE_TOPIC,
        resource_name=name,
        resource_pattern_type=pb.PATTERN_TYPE_PREFIXED,
        principal="User:alice",
        host="*",
        operation=pb.ACL_OPERATION_READ,
        permission_type=permission,
    )


async def created(client: Client, *creations: pb.CreateAclsRequest.Creation) -> list[tuple[int, str]]:
    request = pb.CreateAclsRequest(creations=creations)
    response = await client.admin.CreateAcls(request, timeout=TIMEOUT)
    return [(one.error_code, one.error_message) for one in response.results]


async def described(client: Client, name: str) -> list[tuple[str, int, list[str]]]:
    request = admin.DescribeAclsRequest(
        resource_type_filter=pb.ACL_RESOURCE_TYPE_TOPIC,
        resource_name_filter=name,
        pattern_type_filter=pb.PATTERN_TYPE_MATCH,
        operation=pb.ACL_OPERATION_ANY,
        permission_type=pb.ACL_PERMISSION_TYPE_ANY,
    )
    response = await client.admin.DescribeAcls(request, timeout=TIMEOUT)
    return [
        (one.resource_name, one.pattern_type, [acl.principal for acl in one.acls])
        for one in response.resources
    ]


async def deleted(client: Client, name: str) -> int:
    wanted = pb.DeleteAclsRequest.Filter(
        resource_type_filter=pb.ACL_RESOURCE_TYPE_TOPIC,
        resource_name_filter=name,
        pattern_type_filter=pb.PATTERN_TYPE_ANY,
        operation=pb.ACL_OPERATION_ANY,
        permission_type=pb.ACL_PERMISSION_TYPE_ANY,
    )
    request = pb.DeleteAclsRequest(filters=[wanted])
    (result,) = (await client.admin.DeleteAcls(request, timeout=TIMEOUT)).filter_results
    assert result.error_code == 0
    return len(result.matching_acls)


async def test_a_change_is_visible_in_the_next_call(client: Client) -> None:
    name = unique("topic")
    assert await created(client, creation(name), creation(name), creation(name, DENY)) == [(0, "")] * 3
    assert await described(client, f"{name}-7") == [(name, 4, ["User:alice"] * 2)]
    assert await deleted(client, name) == 2
    assert await described(client, f"{name}-7") == []
    assert await deleted(client, name) == 0


async def test_each_acl_has_its_own_error(client: Client) -> None:
    name = unique("topic")
    invalid = creation(name)
    invalid.principal = "alice"
    (ok, _), (code, message) = await created(client, creation(name), invalid)
    assert (ok, code) == (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
    assert "no colon is present" in message


async def test_a_cluster_without_access_control_has_no_acls(server: str) -> None:
    async with connected(server) as client:
        for call in (described(client, "t"), created(client, creation("t")), deleted(client, "t")):
            assert (await rejection(call)).code is ErrorCode.SECURITY_DISABLED
