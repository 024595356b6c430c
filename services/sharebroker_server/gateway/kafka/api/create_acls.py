"""CreateAcls (30): creates ACLs; one that exists is no error."""

from __future__ import annotations

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_server.gateway.admin.acls import create_acls
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.topics import PORTION
from sharebroker_server.kafka_wire.messages import CreateAclsRequest, CreateAclsResponse
from sharebroker_server.security.acl import AclOperation

_creation = to_proto(CreateAclsRequest.AclCreation, pb.CreateAclsRequest.Creation)
_result = to_kafka(pb.CreateAclsResponse.Result, CreateAclsResponse.AclCreationResult)


async def handle(call: Call[CreateAclsRequest]) -> CreateAclsResponse:
    """Returns one result per ACL."""
    call.rights.require_on_cluster(AclOperation.ALTER)
    deadline, turns = call.deadline(), call.gateway.turns
    creations = await turns.collect(map(_creation, call.request.creations), PORTION)
    response = await create_acls(call.gateway, pb.CreateAclsRequest(creations=creations), deadline)
    return CreateAclsResponse(results=await turns.collect(map(_result, response.results), PORTION))


API = Api(30, (1, 3), handle, Refusal(CreateAclsResponse, {"results": "creations"}))
