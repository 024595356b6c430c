"""DescribeAcls (29): the ACLs that a filter selects, by resource."""

from __future__ import annotations

from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_server.gateway.admin.acls import describe_acls
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.kafka_wire.messages import DescribeAclsRequest, DescribeAclsResponse
from sharebroker_server.security.acl import AclOperation

_request = to_proto(DescribeAclsRequest, pb.DescribeAclsRequest)
_resource = to_kafka(pb.DescribeAclsResponse.Resource, DescribeAclsResponse.DescribeAclsResource)


async def handle(call: Call[DescribeAclsRequest]) -> DescribeAclsResponse:
    """Returns the ACLs."""
    call.rights.require_on_cluster(AclOperation.DESCRIBE)
    response = describe_acls(call.gateway, _request(call.request))
    return DescribeAclsResponse(resources=list(map(_resource, response.resources)))


API = Api(29, (1, 3), handle, Refusal(DescribeAclsResponse))
