"""DeleteGroups (42): deletes empty groups and all their state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import delete_groups
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.groups import each_group
from sharebroker_server.kafka_wire.messages import DeleteGroupsRequest, DeleteGroupsResponse
from sharebroker_server.security.acl import AclOperation

_Result = DeleteGroupsResponse.DeletableGroupResult
_result = to_kafka(pb.DeleteGroupsResponse.DeletableGroupResult, _Result)


async def handle(call: Call[DeleteGroupsRequest]) -> DeleteGroupsResponse:
    """Returns one result per group."""

    async def serve(group_ids: Sequence[str]) -> Iterable[_Result]:
        request = pb.DeleteGroupsRequest(group_ids=group_ids)
        return map(_result, (await delete_groups(call.gateway, request, call.deadline())).results)

    rejected = partial(_refuse.item, "results")
    return DeleteGroupsResponse(
        results=await each_group(call, AclOperation.DELETE, call.request.groups_names, serve, rejected)
    )


_refuse = Refusal(DeleteGroupsResponse, {"results": "groups_names", "results.group_id": str})
API = Api(42, (0, 3), handle, _refuse)
