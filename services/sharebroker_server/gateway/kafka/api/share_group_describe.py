"""ShareGroupDescribe (77): share groups with their members and assignments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.catalog.features import SHARE
from sharebroker_server.gateway.admin.groups import describe_groups
from sharebroker_server.gateway.kafka.authorization import authorized_operations
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.groups import each_group
from sharebroker_server.kafka_wire.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType, Resource

_Group = ShareGroupDescribeResponse.DescribedGroup
_group = to_kafka(pb.ShareGroupDescribeResponse.DescribedGroup, _Group)


async def handle(call: Call[ShareGroupDescribeRequest]) -> ShareGroupDescribeResponse:
    """Returns one result per group."""

    async def serve(group_ids: Sequence[str]) -> Iterable[_Group]:
        request = pb.ShareGroupDescribeRequest(group_ids=group_ids)
        found = (await describe_groups(call.gateway, request, call.deadline())).groups
        return [_described(call, group) for group in found]

    rejected = partial(_refuse.item, "groups")
    return ShareGroupDescribeResponse(
        groups=await each_group(call, AclOperation.DESCRIBE, call.request.group_ids, serve, rejected)
    )


def _described(
    call: Call[ShareGroupDescribeRequest], group: pb.ShareGroupDescribeResponse.DescribedGroup
) -> _Group:
    """Returns a group; an error in its place if the client may not DESCRIBE one of its assigned topics."""
    topics = {part.topic_name for member in group.members for part in member.assignment.topic_partitions}
    if topics - call.rights.permitted(AclOperation.DESCRIBE, AclResourceType.TOPIC, topics):
        reason = "The group has described topic(s) that the client is not authorized to describe."
        return _refuse.item(  # type: ignore[no-any-return]
            "groups", group.group_id, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, reason)
        )
    requested = call.request.include_authorized_operations and not group.error_code
    resource = Resource(AclResourceType.GROUP, group.group_id)
    return _group(group, authorized_operations=authorized_operations(call, resource, requested=requested))


_refuse = Refusal(ShareGroupDescribeResponse, {"groups": "group_ids", "groups.group_id": str})
API = Api(77, (1, 1), handle, _refuse, feature=SHARE)
