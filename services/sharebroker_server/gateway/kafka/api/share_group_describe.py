"""ShareGroupDescribe (77): share groups with their members and assignments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import describe_groups
from sharebroker_server.gateway.kafka.call import SHARE, Api, Call, refusal
from sharebroker_server.gateway.kafka.convert import from_proto
from sharebroker_server.gateway.kafka.groups import each_group
from sharebroker_server.gateway.kafka.topics import group_operations
from sharebroker_server.kafka_wire.messages import ShareGroupDescribeRequest, ShareGroupDescribeResponse

_Group = ShareGroupDescribeResponse.DescribedGroup
_group = from_proto(pb.ShareGroupDescribeResponse.DescribedGroup, _Group)


async def handle(call: Call[ShareGroupDescribeRequest]) -> ShareGroupDescribeResponse:
    """Returns one result per group."""
    requested = call.request.include_authorized_operations

    async def serve(group_ids: Sequence[str]) -> Iterable[_Group]:
        request = pb.ShareGroupDescribeRequest(group_ids=group_ids)
        found = (await describe_groups(call.gateway, request, call.deadline())).groups
        of_group = group_operations
        return [
            _group(group, authorized_operations=of_group(requested=requested and not group.error_code))
            for group in found
        ]

    return ShareGroupDescribeResponse(groups=await each_group(call, call.request.group_ids, serve, _rejected))


def _rejected(group_id: str, error: KafkaError) -> _Group:
    return _Group(group_id=group_id, error_code=error.code, error_message=error.message)


_refuse = refusal(ShareGroupDescribeResponse, {"groups": "group_ids", "groups.group_id": str})
API = Api(77, (1, 1), handle, _refuse, feature=SHARE)
