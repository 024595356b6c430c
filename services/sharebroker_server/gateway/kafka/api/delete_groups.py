"""DeleteGroups (42): deletes empty groups and all their state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import delete_groups
from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.convert import from_proto
from sharebroker_server.gateway.kafka.groups import each_group
from sharebroker_server.kafka_wire.messages import DeleteGroupsRequest, DeleteGroupsResponse

_Result = DeleteGroupsResponse.DeletableGroupResult
_result = from_proto(pb.DeleteGroupsResponse.DeletableGroupResult, _Result)


async def handle(call: Call[DeleteGroupsRequest]) -> DeleteGroupsResponse:
    """Returns one result per group."""

    async def serve(group_ids: Sequence[str]) -> Iterable[_Result]:
        request = pb.DeleteGroupsRequest(group_ids=group_ids)
        return map(_result, (await delete_groups(call.gateway, request, call.deadline())).results)

    return DeleteGroupsResponse(results=await each_group(call, call.request.groups_names, serve, _rejected))


def _rejected(group_id: str, error: KafkaError) -> _Result:
    return _Result(group_id=group_id, error_code=error.code)


API = Api(
    42, (0, 2), handle, refusal(DeleteGroupsResponse, {"results": "groups_names", "results.group_id": str})
)
