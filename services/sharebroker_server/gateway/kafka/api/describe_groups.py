"""DescribeGroups (15): consumer groups with their members, and what these are assigned."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers import authorized_operations
from sharebroker_server.gateway.kafka.helpers.consumer_groups import coordinator, instance_of
from sharebroker_server.gateway.kafka.helpers.coordinated_groups import each_group
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(15)
_FIRST_WITH_ERRORS: Final = 6
"""Before this version a group that does not exist is dead, and that is no error."""


async def handle(call: Call) -> Message:
    """A group is dead that does not exist, or is a share group."""

    async def ask(group_ids: Sequence[str]) -> Iterable[Message]:
        return await asyncio.gather(*(_described(call, group_id) for group_id in group_ids))

    return _R.DescribeGroupsResponse(groups=await each_group(call, call.request.groups, ask, _refused))


async def _described(call: Call, group_id: str) -> Message:
    request = pb.ConsumerGroupDescribeRequest(group_id=group_id)
    try:
        found = await coordinator(
            call, group_id, lambda stub: stub.ConsumerGroupDescribe, request, call.deadline()
        )
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            return _refused(group_id, error)
        return _dead(call, group_id, error)
    return _R.DescribedGroup(
        group_id=group_id,
        group_state=found.group_state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol_name,
        members=[
            _R.DescribedGroupMember(
                member_id=one.member_id,
                group_instance_id=instance_of(one),
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata,
                member_assignment=one.assignment,
            )
            for one in found.members
        ],
        authorized_operations=authorized_operations.of_group(
            asked=call.request.include_authorized_operations
        ),
    )


def _dead(call: Call, group_id: str, error: KafkaError) -> Message:
    if call.version < _FIRST_WITH_ERRORS:
        return _R.DescribedGroup(group_id=group_id, group_state="Dead")
    return _R.DescribedGroup(
        group_id=group_id, group_state="Dead", error_code=error.code, error_message=error.message
    )


def _refused(group_id: str, error: KafkaError) -> Message:
    return _R.DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _refuse(call: Call, error: KafkaError) -> Message:
    return _R.DescribeGroupsResponse(groups=[_refused(one, error) for one in call.request.groups])


API = Api(15, (0, 6), handle, _refuse)
