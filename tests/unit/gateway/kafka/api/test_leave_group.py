"""LeaveGroup: one member up to version 2, several from version 3 on."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.kafka_wire.messages import LeaveGroupRequest, LeaveGroupResponse
from sharebroker_server.rpc.errors import wire
from tests.unit.gateway.kafka.api.harness import Harness


def reply(request: pb.LeaveGroupRequest) -> pb.LeaveGroupResponse:
    response = pb.LeaveGroupResponse()
    for member in request.members:
        known = member.member_id in ("m", "")
        code = ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID
        instance_id = member.group_instance_id if member.HasField("group_instance_id") else None
        response.members.add(member_id=member.member_id, group_instance_id=instance_id, error_code=wire(code))
    return response


@pytest.mark.parametrize(("member_id", "code"), [("m", 0), ("n", ErrorCode.UNKNOWN_MEMBER_ID)])
async def test_version_2_names_one_member(harness: Harness, member_id: str, code: int) -> None:
    harness.services.reply("LeaveGroup", reply)
    request = LeaveGroupRequest(group_id="g", member_id=member_id)
    assert (await harness.call(2, request, LeaveGroupResponse)).error_code == code
    assert [one.member_id for one in harness.services.only("LeaveGroup").members] == [member_id]


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_version_3_names_several_members(harness: Harness, version: int) -> None:
    harness.services.reply("LeaveGroup", reply)
    member = LeaveGroupRequest.MemberIdentity
    members = [member(member_id="n"), member(member_id="", group_instance_id="i")]
    request = LeaveGroupRequest(group_id="g", members=members)
    response = await harness.call(version, request, LeaveGroupResponse)
    assert response.error_code == ErrorCode.NONE
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in response.members] == [
        ("n", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "i", ErrorCode.NONE),
    ]


async def test_an_unknown_group_fails_each_member(harness: Harness) -> None:
    harness.services.fail("LeaveGroup", ErrorCode.UNKNOWN_MEMBER_ID)
    members = [LeaveGroupRequest.MemberIdentity(member_id="m", group_instance_id="i")]
    response = await harness.call(5, LeaveGroupRequest(group_id="g", members=members), LeaveGroupResponse)
    assert response.error_code == ErrorCode.NONE
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in response.members] == [
        ("m", "i", ErrorCode.UNKNOWN_MEMBER_ID)
    ]
    old = await harness.call(2, LeaveGroupRequest(group_id="g", member_id="m"), LeaveGroupResponse)
    assert old.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_other_errors_are_errors_of_the_request(harness: Harness) -> None:
    harness.lead_elsewhere()
    members = [LeaveGroupRequest.MemberIdentity(member_id="m")]
    response = await harness.call(5, LeaveGroupRequest(group_id="g", members=members), LeaveGroupResponse)
    assert (response.error_code, response.members) == (ErrorCode.NOT_COORDINATOR, [])
