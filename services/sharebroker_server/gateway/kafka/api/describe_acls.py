"""DescribeAcls (29): the ACLs that a filter selects, by resource."""

from __future__ import annotations

from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_server.gateway.admin.acls import describe_acls
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.topics import convert_parts
from sharebroker_server.kafka_wire.messages import DescribeAclsRequest, DescribeAclsResponse
from sharebroker_server.security.acl import AclOperation

_request = to_proto(DescribeAclsRequest, pb.DescribeAclsRequest)
_Resource = DescribeAclsResponse.DescribeAclsResource
_Acl = DescribeAclsResponse.AclDescription
_resource = to_kafka(pb.DescribeAclsResponse.Resource, _Resource, omit=("acls",))
_acl = to_kafka(pb.DescribeAclsResponse.AclDescription, _Acl)


async def handle(call: Call[DescribeAclsRequest]) -> DescribeAclsResponse:
    """Returns the ACLs."""
    call.rights.require_on_cluster(AclOperation.DESCRIBE)
    response = await describe_acls(call.gateway, _request(call.request), call.deadline())
    found = ((resource, resource.acls) for resource in response.resources)
    resources = await convert_parts(
        call.gateway.turns, found, lambda resource, acls: _resource(resource, acls=acls), _acl
    )
    return DescribeAclsResponse(resources=resources)


API = Api(29, (1, 3), handle, Refusal(DescribeAclsResponse))
