"""ListGroups (16): the groups that this broker coordinates."""

from __future__ import annotations

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import list_groups
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.groups import coordinates
from sharebroker_server.kafka_wire.messages import ListGroupsRequest, ListGroupsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_request = to_proto(ListGroupsRequest, pb.ListGroupsRequest)
_group = to_kafka(pb.ListGroupsResponse.ListedGroup, ListGroupsResponse.ListedGroup)


async def handle(call: Call[ListGroupsRequest]) -> ListGroupsResponse:
    """Returns the groups by name that the client may DESCRIBE; clients send the request to every broker."""
    found = await list_groups(call.gateway, _request(call.request), call.deadline())
    own = [group for group in found.groups if coordinates(call, group.group_id)]
    if not call.rights.allows_on_cluster(AclOperation.DESCRIBE):
        operation, kind = AclOperation.DESCRIBE, AclResourceType.GROUP
        own = [group for group in own if call.rights.allows(operation, kind, group.group_id)]
    return ListGroupsResponse(groups=list(map(_group, own)))


API = Api(16, (0, 5), handle, Refusal(ListGroupsResponse))
