"""DeleteAcls (31): deletes the ACLs that filters select."""

from __future__ import annotations

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_server.gateway.admin.acls import delete_acls
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.topics import PORTION, convert_parts
from sharebroker_server.kafka_wire.messages import DeleteAclsRequest, DeleteAclsResponse
from sharebroker_server.security.acl import AclOperation

_filter = to_proto(DeleteAclsRequest.DeleteAclsFilter, pb.DeleteAclsRequest.Filter)
_Result = DeleteAclsResponse.DeleteAclsFilterResult
_Acl = DeleteAclsResponse.DeleteAclsMatchingAcl
_result = to_kafka(pb.DeleteAclsResponse.FilterResult, _Result, omit=("matching_acls",))
_acl = to_kafka(pb.DeleteAclsResponse.MatchingAcl, _Acl)


async def handle(call: Call[DeleteAclsRequest]) -> DeleteAclsResponse:
    """Returns one result per filter, with the deleted ACLs."""
    call.rights.require_on_cluster(AclOperation.ALTER)
    deadline, turns = call.deadline(), call.gateway.turns
    filters = await turns.collect(map(_filter, call.request.filters), PORTION)
    response = await delete_acls(call.gateway, pb.DeleteAclsRequest(filters=filters), deadline)
    found = ((result, result.matching_acls) for result in response.filter_results)
    results = await convert_parts(
        turns, found, lambda result, acls: _result(result, matching_acls=acls), _acl
    )
    return DeleteAclsResponse(filter_results=results)


API = Api(31, (1, 3), handle, Refusal(DeleteAclsResponse, {"filter_results": "filters"}))
