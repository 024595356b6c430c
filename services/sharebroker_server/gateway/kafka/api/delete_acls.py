"""DeleteAcls (31): deletes the ACLs that filters select."""

from __future__ import annotations

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_server.gateway.admin.acls import delete_acls
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.kafka_wire.messages import DeleteAclsRequest, DeleteAclsResponse
from sharebroker_server.security.acl import AclOperation

_filter = to_proto(DeleteAclsRequest.DeleteAclsFilter, pb.DeleteAclsRequest.Filter)
_result = to_kafka(pb.DeleteAclsResponse.FilterResult, DeleteAclsResponse.DeleteAclsFilterResult)


async def handle(call: Call[DeleteAclsRequest]) -> DeleteAclsResponse:
    """Returns one result per filter, with the deleted ACLs."""
    call.rights.require_on_cluster(AclOperation.ALTER)
    request = pb.DeleteAclsRequest(filters=map(_filter, call.request.filters))
    response = await delete_acls(call.gateway, request, call.deadline())
    return DeleteAclsResponse(filter_results=list(map(_result, response.filter_results)))


API = Api(31, (1, 3), handle, Refusal(DeleteAclsResponse, {"filter_results": "filters"}))
