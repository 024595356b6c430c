"""DescribeShareGroupOffsets (90): start offsets and lag of share groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import describe_offsets
from sharebroker_server.gateway.kafka.call import SHARE, Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.groups import each_group
from sharebroker_server.kafka_wire.messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)

_Group = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
_request = to_proto(
    DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup,
    pb.DescribeShareGroupOffsetsRequest.Group,
)
_group = to_kafka(pb.DescribeShareGroupOffsetsResponse.Group, _Group, {"partition_index": "partition"})


async def handle(call: Call[DescribeShareGroupOffsetsRequest]) -> DescribeShareGroupOffsetsResponse:
    """Returns one result per group; an unknown group has no topics, which is not an error."""
    groups = {group.group_id: group for group in call.request.groups}

    async def serve(group_ids: Sequence[str]) -> Iterable[_Group]:
        named = [groups[group_id] for group_id in group_ids]
        request = pb.DescribeShareGroupOffsetsRequest(
            groups=[_request(group, all_topics=group.topics is None) for group in named]
        )
        return map(_group, (await describe_offsets(call.gateway, request, call.deadline())).groups)

    def rejected(group_id: str, error: KafkaError) -> _Group:
        return _refuse.item("groups", groups[group_id], error)  # type: ignore[no-any-return]

    return DescribeShareGroupOffsetsResponse(groups=await each_group(call, groups, serve, rejected))


_refuse = Refusal(DescribeShareGroupOffsetsResponse, {"groups": "groups"})
API = Api(90, (0, 1), handle, _refuse, feature=SHARE)
