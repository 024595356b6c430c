"""DescribeGroups (15): classic groups, of which there are none here; tools ask all the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from libs.kafka_wire.shapes import Message, response_shapes
from services.gateway.kafka.call import Api, Call
from services.gateway.kafka.own_groups import each_group
from services.gateway.service.groups import describe_groups
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.group_coordinator.v1 import group_coordinator_pb2 as pb

_R = response_shapes(15)
_FIRST_WITH_ERRORS: Final = 6
"""Before this version a group that does not exist is dead, and that is no error."""


async def handle(call: Call) -> Message:
    """Every group is dead, as a group is in Kafka that does not exist or is of another type."""

    async def ask(group_ids: Sequence[str]) -> Iterable[Message]:
        request = pb.ShareGroupDescribeRequest(group_ids=group_ids)
        described = await describe_groups(call.gateway, request, call.deadline())
        return (_dead(call, group.group_id, exists=not group.error_code) for group in described.groups)

    return _R.DescribeGroupsResponse(groups=await each_group(call, call.request.groups, ask, _refused))


def _dead(call: Call, group_id: str, *, exists: bool) -> Message:
    if call.version < _FIRST_WITH_ERRORS:
        return _R.DescribedGroup(group_id=group_id, group_state="Dead")
    return _R.DescribedGroup(
        group_id=group_id,
        group_state="Dead",
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} is not a classic group."
        if exists
        else f"Group {group_id} not found.",
    )


def _refused(group_id: str, error: KafkaError) -> Message:
    return _R.DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _refuse(call: Call, error: KafkaError) -> Message:
    return _R.DescribeGroupsResponse(groups=[_refused(one, error) for one in call.request.groups])


API = Api(15, (0, 6), handle, _refuse)
