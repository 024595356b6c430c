"""DescribeGroups (15): consumer groups with their members and assignments."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.authorization import authorized_operations
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.groups import call_coordinator, each_group
from sharebroker_server.kafka_wire.messages import DescribeGroupsRequest, DescribeGroupsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType, Resource

_FIRST_WITH_ERRORS: Final = 6
"""Before this version an unknown group has the state Dead and no error."""

_Group = DescribeGroupsResponse.DescribedGroup
_group = to_kafka(
    pb.ConsumerGroupDescribeResponse,
    _Group,
    {"protocol_data": "protocol_name", "member_metadata": "metadata", "member_assignment": "assignment"},
)


async def handle(call: Call[DescribeGroupsRequest]) -> DescribeGroupsResponse:
    """Returns one result per group; unknown groups and share groups have the state Dead."""

    async def serve(group_ids: Sequence[str]) -> Iterable[_Group]:
        return await asyncio.gather(*(_describe(call, group_id) for group_id in group_ids))

    rejected = partial(_refuse.item, "groups")
    return DescribeGroupsResponse(
        groups=await each_group(call, AclOperation.DESCRIBE, call.request.groups, serve, rejected)
    )


async def _describe(call: Call[DescribeGroupsRequest], group_id: str) -> _Group:
    request = pb.ConsumerGroupDescribeRequest(group_id=group_id)
    try:
        found = await call_coordinator(call, lambda stub: stub.ConsumerGroupDescribe, request)
    except KafkaError as error:
        known = call.version >= _FIRST_WITH_ERRORS or error.code is not ErrorCode.GROUP_ID_NOT_FOUND
        result: _Group = _refuse.item("groups", group_id, error) if known else _Group(group_id=group_id)
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            result.group_state = "Dead"
        return result
    operations = authorized_operations(
        call,
        Resource(AclResourceType.GROUP, group_id),
        requested=call.request.include_authorized_operations,
    )
    return _group(found, group_id=group_id, authorized_operations=operations)


_refuse = Refusal(DescribeGroupsResponse, {"groups": "groups", "groups.group_id": str})
API = Api(15, (0, 6), handle, _refuse)
