"""ACLs and filters in the messages of RPCs."""

from __future__ import annotations

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_server.catalog.acls import check_filter, new_acl
from sharebroker_server.security.acl import AclBinding, AclFilter


def created_acl(creation: pb.CreateAclsRequest.Creation) -> AclBinding:
    """Returns the ACL that a request creates. Raises INVALID_REQUEST."""
    return new_acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def deleted_acl(acl: pb.DeleteAclsResponse.MatchingAcl) -> AclBinding:
    """Returns an ACL that a request deleted. Raises INVALID_REQUEST."""
    return new_acl(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def filter_of(requested: pb.DeleteAclsRequest.Filter | admin.DescribeAclsRequest) -> AclFilter:
    """Returns the filter of a request. Raises INVALID_REQUEST."""
    return check_filter(
        AclFilter(
            requested.resource_type_filter,
            requested.resource_name_filter if requested.HasField("resource_name_filter") else None,
            requested.pattern_type_filter,
            requested.principal_filter if requested.HasField("principal_filter") else None,
            requested.host_filter if requested.HasField("host_filter") else None,
            requested.operation,
            requested.permission_type,
        )
    )
