"""DescribeGroups: consumer groups, and the state Dead for unknown ones."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.kafka_wire.messages import DescribeGroupsRequest, DescribeGroupsResponse
from tests.unit.gateway.kafka.api.harness import Harness


def reply(request: pb.ConsumerGroupDescribeRequest) -> pb.ConsumerGroupDescribeResponse:
    if request.group_id != "g":
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "unknown")
    response = pb.ConsumerGroupDescribeResponse(
        group_state="Stable", protocol_type="consumer", protocol_name="range"
    )
    fields = {"client_id": "c", "client_host": "/h", "metadata": b"meta", "assignment": b"parts"}
    response.members.add(member_id="m", group_instance_id="i", **fields)
    response.members.add(member_id="n")
    return response


async def test_members_are_described(harness: Harness) -> None:
    harness.services.reply("ConsumerGroupDescribe", reply)
    response = await harness.call(5, DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse)
    (group,) = response.groups
    assert (group.error_code, group.group_id, group.group_state) == (ErrorCode.NONE, "g", "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    first, second = group.members
    assert (first.member_id, first.group_instance_id, second.group_instance_id) == ("m", "i", None)
    assert (first.client_id, first.client_host) == ("c", "/h")
    assert (first.member_metadata, first.member_assignment) == (b"meta", b"parts")


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
async def test_an_unknown_group_is_dead(harness: Harness, version: int, code: ErrorCode) -> None:
    harness.services.reply("ConsumerGroupDescribe", reply)
    response = await harness.call(version, DescribeGroupsRequest(groups=["none"]), DescribeGroupsResponse)
    (group,) = response.groups
    assert (group.group_id, group.group_state, group.error_code) == ("none", "Dead", code)


async def test_authorized_operations_are_returned_on_request(harness: Harness) -> None:
    harness.services.reply("ConsumerGroupDescribe", reply)
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    response = await harness.call(3, request, DescribeGroupsResponse)
    assert response.groups[0].authorized_operations > 0


async def test_groups_of_another_coordinator_are_errors(harness: Harness) -> None:
    harness.lead_elsewhere()
    response = await harness.call(6, DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse)
    assert response.groups[0].error_code == ErrorCode.NOT_COORDINATOR
