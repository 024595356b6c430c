"""DeleteAcls: each filter has its result with the deleted ACLs; ALTER of the cluster is required."""

from __future__ import annotations

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.access_view import AccessView
from sharebroker_server.kafka_wire.messages import DeleteAclsRequest, DeleteAclsResponse
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl_authorizer import AclAuthorizer
from tests.unit.gateway.kafka.api.harness import Harness

_Filter = DeleteAclsRequest.DeleteAclsFilter
REQUEST = DeleteAclsRequest(
    filters=[
        _Filter(
            resource_type_filter=2,
            resource_name_filter=name,
            pattern_type_filter=2,
            principal_filter=None,
            host_filter="*",
            operation=1,
            permission_type=1,
        )
        for name in ("orders", None)
    ]
)
DELETED = pb.DeleteAclsResponse.MatchingAcl(
    resource_type=pb.ACL_RESOURCE_TYPE_TOPIC,
    resource_name="orders",
    pattern_type=pb.PATTERN_TYPE_PREFIXED,
    principal="User:alice",
    host="*",
    operation=pb.ACL_OPERATION_READ,
    permission_type=pb.ACL_PERMISSION_TYPE_DENY,
)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_each_filter_has_its_own_result(harness: Harness, version: int) -> None:
    view = AccessView(harness.gateway.catalog)
    harness.gateway.authorizer = AclAuthorizer(view, super_users=["User:ANONYMOUS"])
    rejected = wire(ErrorCode.INVALID_REQUEST)
    results = [
        pb.DeleteAclsResponse.FilterResult(matching_acls=[DELETED]),
        pb.DeleteAclsResponse.FilterResult(error_code=rejected, error_message="no"),
    ]
    harness.services.reply("DeleteAcls", pb.DeleteAclsResponse(filter_results=results))
    response = await harness.call(version, REQUEST, DeleteAclsResponse)
    first, second = response.filter_results
    assert (first.error_code, first.error_message, len(first.matching_acls)) == (ErrorCode.NONE, None, 1)
    assert (second.error_code, second.error_message, len(second.matching_acls)) == (42, "no", 0)
    acl = first.matching_acls[0]
    assert (acl.error_code, acl.error_message, acl.resource_type, acl.resource_name) == (0, None, 2, "orders")
    assert (acl.pattern_type, acl.principal, acl.host, acl.operation) == (4, "User:alice", "*", 3)
    assert acl.permission_type == 2
    sent = harness.services.only("DeleteAcls").filters
    assert [(one.HasField("resource_name_filter"), one.HasField("principal_filter")) for one in sent] == [
        (True, False),
        (False, False),
    ]
    assert [(one.host_filter, one.pattern_type_filter) for one in sent] == [("*", 2), ("*", 2)]


@pytest.mark.parametrize(
    ("enabled", "code"),
    [(True, ErrorCode.CLUSTER_AUTHORIZATION_FAILED), (False, ErrorCode.SECURITY_DISABLED)],
)
async def test_a_refused_request_has_an_error_for_each_filter(
    harness: Harness, enabled: bool, code: ErrorCode
) -> None:
    if enabled:
        harness.gateway.authorizer = AclAuthorizer(AccessView(harness.gateway.catalog))
    response = await harness.call(3, REQUEST, DeleteAclsResponse)
    assert [(one.error_code, len(one.matching_acls)) for one in response.filter_results] == [(code, 0)] * 2
    assert not harness.services.requests
