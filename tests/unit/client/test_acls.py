"""ACLs of the client: names for Kafka's numbers, and an error for an unknown name."""

from __future__ import annotations

import pytest

from sharebroker.acls import (
    OPERATIONS,
    Acl,
    AclSelection,
    creation_of,
    deleted_acls,
    filter_fields,
    listed_acls,
)
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin

ACL = Acl("User:alice", "alter-configs", "transactional-id", "t-", "prefixed", "10.0.0.0/8", "deny")


def test_an_acl_in_messages() -> None:
    made = creation_of(ACL)
    assert (made.resource_type, made.resource_name, made.resource_pattern_type) == (5, "t-", 4)
    assert (made.principal, made.host, made.operation, made.permission_type) == (
        "User:alice",
        "10.0.0.0/8",
        11,
        2,
    )
    deleted = pb.DeleteAclsResponse.MatchingAcl(
        resource_type=made.resource_type,
        resource_name="t-",
        pattern_type=made.resource_pattern_type,
        principal="User:alice",
        host="10.0.0.0/8",
        operation=made.operation,
        permission_type=made.permission_type,
    )
    assert deleted_acls(pb.DeleteAclsResponse.FilterResult(matching_acls=[deleted])) == [ACL]
    entry = admin.DescribeAclsResponse.AclDescription(
        principal="User:alice",
        host="10.0.0.0/8",
        operation=made.operation,
        permission_type=made.permission_type,
    )
    resource = admin.DescribeAclsResponse.Resource(
        resource_type=made.resource_type,
        resource_name="t-",
        pattern_type=made.resource_pattern_type,
        acls=[entry],
    )
    assert listed_acls(admin.DescribeAclsResponse(resources=[resource])) == [ACL]


def test_a_filter_in_messages() -> None:
    every = admin.DescribeAclsRequest(**filter_fields(AclSelection()))
    assert (
        every.resource_type_filter,
        every.pattern_type_filter,
        every.operation,
        every.permission_type,
    ) == (
        1,
        1,
        1,
        1,
    )
    assert not any(every.HasField(f"{name}_filter") for name in ("resource_name", "principal", "host"))  # type: ignore[arg-type]  # names of fields
    wanted = AclSelection("User:*", "read", "topic", "orders", "match", "*", "allow")
    some = pb.DeleteAclsRequest.Filter(**filter_fields(wanted))
    assert (some.resource_type_filter, some.resource_name_filter, some.pattern_type_filter) == (
        2,
        "orders",
        2,
    )
    assert (some.principal_filter, some.host_filter, some.operation, some.permission_type) == (
        "User:*",
        "*",
        3,
        3,
    )


def test_names_that_are_unknown_are_rejected() -> None:
    with pytest.raises(KafkaError, match="operation must be one of any, all, read") as caught:
        creation_of(Acl("User:alice", "reed", "topic", "orders"))
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_operations_are_kafkas() -> None:
    assert (OPERATIONS[0], OPERATIONS[-1], len(OPERATIONS)) == ("all", "two-phase-commit", 14)
