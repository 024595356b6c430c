"""ListGroups (16): the groups that this broker coordinates."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import list_groups
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.coordinated_groups import coordinates
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(16)


async def handle(call: Call) -> Message:
    """By name; clients ask every broker."""
    asked = pb.ListGroupsRequest(
        states_filter=call.request.states_filter, types_filter=call.request.types_filter
    )
    found = await list_groups(call.gateway, asked, call.deadline())
    return _R.ListGroupsResponse(
        groups=[
            _R.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.group_state,
                group_type=group.group_type,
            )
            for group in found.groups
            if coordinates(call, group.group_id)
        ]
    )


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.ListGroupsResponse(error_code=error.code)


API = Api(16, (0, 5), handle, _refuse)
