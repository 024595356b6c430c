"""ShareGroupDescribe (77): share groups with their members and assignments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import describe_groups
from sharebroker_server.gateway.kafka.call import SHARE, Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.groups import each_group
from sharebroker_server.gateway.kafka.topics import ON_GROUP, authorized_operations
from sharebroker_server.kafka_wire.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse

_Group = ShareGroupDescribeResponse.DescribedGroup
_group = to_kafka(pb.ShareGroupDescribeResponse.DescribedGroup, _Group)


async def handle(call: Call[ShareGroupDescribeRequest]) -> ShareGroupDescribeResponse:
    """Returns one result per group."""
    none = authorized_operations(ON_GROUP, requested=False)
    operations = authorized_operations(ON_GROUP, requested=call.request.include_authorized_operations)

    async def serve(group_ids: Sequence[str]) -> Iterable[_Group]:
        request = pb.ShareGroupDescribeRequest(group_ids=group_ids)
        found = (await describe_groups(call.gateway, request, call.deadline())).groups
        return [
            _group(group, authorized_operations=operations if not group.error_code else none)
            for group in found
        ]

    rejected = partial(_refuse.item, "groups")
    return ShareGroupDescribeResponse(groups=await each_group(call, call.request.group_ids, serve, rejected))


_refuse = Refusal(ShareGroupDescribeResponse, {"groups": "group_ids", "groups.group_id": str})
API = Api(77, (1, 1), handle, _refuse, feature=SHARE)
