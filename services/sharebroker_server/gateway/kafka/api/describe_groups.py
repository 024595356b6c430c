"""DescribeGroups (15): consumer groups with their members and assignments."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.convert import from_proto
from sharebroker_server.gateway.kafka.groups import call_coordinator, each_group
from sharebroker_server.gateway.kafka.topics import group_operations
from sharebroker_server.kafka_wire.messages import DescribeGroupsRequest, DescribeGroupsResponse

_FIRST_WITH_ERRORS: Final = 6
"""Before this version an unknown group has the state Dead and no error."""

_Group = DescribeGroupsResponse.DescribedGroup
_group = from_proto(
    pb.ConsumerGroupDescribeResponse,
    _Group,
    {"protocol_data": "protocol_name", "member_metadata": "metadata", "member_assignment": "assignment"},
)


async def handle(call: Call[DescribeGroupsRequest]) -> DescribeGroupsResponse:
    """Returns one result per group; unknown groups and share groups have the state Dead."""

    async def serve(group_ids: Sequence[str]) -> Iterable[_Group]:
        return await asyncio.gather(*(_describe(call, group_id) for group_id in group_ids))

    return DescribeGroupsResponse(groups=await each_group(call, call.request.groups, serve, _rejected))


async def _describe(call: Call[DescribeGroupsRequest], group_id: str) -> _Group:
    request = pb.ConsumerGroupDescribeRequest(group_id=group_id)
    try:
        found = await call_coordinator(
            call, group_id, lambda stub: stub.ConsumerGroupDescribe, request, call.deadline()
        )
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            return _rejected(group_id, error)
        dead = _rejected(group_id, error) if call.version >= _FIRST_WITH_ERRORS else _Group(group_id=group_id)
        dead.group_state = "Dead"
        return dead
    operations = group_operations(requested=call.request.include_authorized_operations)
    return _group(found, group_id=group_id, authorized_operations=operations)


def _rejected(group_id: str, error: KafkaError) -> _Group:
    return _Group(group_id=group_id, error_code=error.code, error_message=error.message)


API = Api(15, (0, 6), handle, refusal(DescribeGroupsResponse, {"groups": "groups", "groups.group_id": str}))
