"""DeleteGroups (42): empty groups with all their state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import delete_groups
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.coordinated_groups import each_group
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(42)


async def handle(call: Call) -> Message:
    """Each group has its own result."""

    async def ask(group_ids: Sequence[str]) -> Iterable[Message]:
        request = pb.DeleteGroupsRequest(group_ids=group_ids)
        return map(_result, (await delete_groups(call.gateway, request, call.deadline())).results)

    return _R.DeleteGroupsResponse(results=await each_group(call, call.request.groups_names, ask, _refused))


def _result(result: pb.DeleteGroupsResponse.DeletableGroupResult) -> Message:
    return _R.DeletableGroupResult(group_id=result.group_id, error_code=result.error_code)


def _refused(group_id: str, error: KafkaError) -> Message:
    return _R.DeletableGroupResult(group_id=group_id, error_code=error.code)


def _refuse(call: Call, error: KafkaError) -> Message:
    return _R.DeleteGroupsResponse(results=[_refused(one, error) for one in call.request.groups_names])


API = Api(42, (0, 2), handle, _refuse)
