"""ACLs and filters have the same fields in messages and in rules."""

from __future__ import annotations

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_server.catalog.acl_messages import created_acl, deleted_acl, filter_of
from sharebroker_server.security.acl import AclFilter, binding

ACL = binding(2, "orders", 4, "User:alice", "10.0.0.7", 3, 2)


def test_acls() -> None:
    creation = pb.CreateAclsRequest.Creation(
        resource_type=pb.ACL_RESOURCE_TYPE_TOPIC,
        resource_name="orders",
        resource_pattern_type=pb.PATTERN_TYPE_PREFIXED,
        principal="User:alice",
        host="10.0.0.7",
        operation=pb.ACL_OPERATION_READ,
        permission_type=pb.ACL_PERMISSION_TYPE_DENY,
    )
    deleted = pb.DeleteAclsResponse.MatchingAcl(
        resource_type=pb.ACL_RESOURCE_TYPE_TOPIC,
        resource_name="orders",
        pattern_type=pb.PATTERN_TYPE_PREFIXED,
        principal="User:alice",
        host="10.0.0.7",
        operation=pb.ACL_OPERATION_READ,
        permission_type=pb.ACL_PERMISSION_TYPE_DENY,
    )
    assert created_acl(creation) == deleted_acl(deleted) == ACL


@pytest.mark.parametrize("kind", [pb.DeleteAclsRequest.Filter, admin.DescribeAclsRequest])
def test_filters(kind: type[pb.DeleteAclsRequest.Filter] | type[admin.DescribeAclsRequest]) -> None:
    some = kind(
        resource_type_filter=pb.ACL_RESOURCE_TYPE_ANY,
        pattern_type_filter=pb.PATTERN_TYPE_MATCH,
        operation=pb.ACL_OPERATION_ANY,
        permission_type=pb.ACL_PERMISSION_TYPE_ANY,
    )
    assert filter_of(some) == AclFilter(pattern_type=2)
    some.resource_name_filter, some.principal_filter, some.host_filter = "", "User:*", "*"
    assert filter_of(some) == AclFilter(1, "", 2, "User:*", "*")
    with pytest.raises(KafkaError, match=r"Unknown patternFilter\."):
        filter_of(kind())
