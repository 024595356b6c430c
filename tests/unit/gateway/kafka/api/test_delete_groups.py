"""DeleteGroups: each group has its own result."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.kafka_wire.messages import DeleteGroupsRequest, DeleteGroupsResponse
from sharebroker_server.rpc.errors import wire
from tests.unit.gateway.kafka.api.harness import Harness


def reply(request: pb.DeleteGroupsRequest) -> pb.DeleteGroupsResponse:
    response = pb.DeleteGroupsResponse()
    for group_id in request.group_ids:
        error = ErrorCode.NON_EMPTY_GROUP if group_id == "busy" else ErrorCode.NONE
        message = "It has members." if error else ""
        response.results.add(group_id=group_id, error_code=wire(error), error_message=message)
    return response


def describe(request: pb.ShareGroupDescribeRequest) -> pb.ShareGroupDescribeResponse:
    response = pb.ShareGroupDescribeResponse()
    for group_id in request.group_ids:
        response.groups.add(group_id=group_id, group_epoch=1)
    return response


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_each_group_has_its_own_result(harness: Harness, version: int) -> None:
    harness.services.reply("ShareGroupDescribe", describe)
    harness.services.reply("DeleteGroups", reply)
    request = DeleteGroupsRequest(groups_names=["idle", "busy", "idle"])
    response = await harness.call(version, request, DeleteGroupsResponse)
    assert [(one.group_id, one.error_code) for one in response.results] == [
        ("idle", ErrorCode.NONE),
        ("busy", ErrorCode.NON_EMPTY_GROUP),
    ]
    messages = [one.error_message for one in response.results]
    assert messages == ([None, "It has members."] if version >= 3 else [None, None])


async def test_groups_of_another_coordinator_are_errors(harness: Harness) -> None:
    harness.lead_elsewhere()
    response = await harness.call(2, DeleteGroupsRequest(groups_names=["a", "b"]), DeleteGroupsResponse)
    assert [(one.group_id, one.error_code) for one in response.results] == [
        ("a", ErrorCode.NOT_COORDINATOR),
        ("b", ErrorCode.NOT_COORDINATOR),
    ]
