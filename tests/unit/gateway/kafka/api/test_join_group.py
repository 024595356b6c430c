"""JoinGroup: the request, the members for the leader, and refusals with a member id."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.kafka_wire.messages import JoinGroupRequest, JoinGroupResponse
from tests.unit.gateway.kafka.api.harness import Harness

REQUEST = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    member_id="m",
    group_instance_id="i",
    protocol_type="consumer",
    protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"meta")],
)


@pytest.mark.parametrize(("version", "id_first"), [(0, False), (3, False), (4, True), (9, True)])
async def test_the_request_is_forwarded(harness: Harness, version: int, id_first: bool) -> None:
    answer = pb.JoinGroupResponse(
        generation_id=4, protocol_type="consumer", protocol_name="range", leader="m", member_id="m"
    )
    answer.members.add(member_id="m", group_instance_id="i", metadata=b"meta")
    answer.members.add(member_id="n")
    harness.services.reply("JoinGroup", answer)
    response = await harness.call(version, REQUEST, JoinGroupResponse)
    assert (response.error_code, response.generation_id, response.protocol_name) == (0, 4, "range")
    assert (response.leader, response.member_id) == ("m", "m")
    assert response.protocol_type == ("consumer" if version >= 7 else None)
    first, second = response.members
    assert (first.member_id, first.metadata, second.member_id, second.metadata) == ("m", b"meta", "n", b"")
    assert (first.group_instance_id, second.group_instance_id) == ("i" if version >= 5 else None, None)
    sent = harness.services.only("JoinGroup")
    assert (sent.group_id, sent.member_id, sent.session_timeout_ms) == ("g", "m", 10_000)
    assert sent.rebalance_timeout_ms == (60_000 if version >= 1 else -1)
    assert [(one.name, one.metadata) for one in sent.protocols] == [("range", b"meta")]
    assert (sent.client_id, sent.client_host) == ("client", "/10.0.0.1")
    assert sent.require_known_member_id is id_first


@pytest.mark.parametrize(("version", "protocol"), [(6, ""), (7, None)])
async def test_a_member_without_an_id_receives_one(
    harness: Harness, version: int, protocol: str | None
) -> None:
    harness.services.fail("JoinGroup", ErrorCode.MEMBER_ID_REQUIRED, member_id="assigned")
    response = await harness.call(version, REQUEST, JoinGroupResponse)
    assert (response.error_code, response.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "assigned")
    assert (response.protocol_name, response.leader, response.members) == (protocol, "", [])


async def test_other_errors_keep_the_member_id(harness: Harness) -> None:
    harness.services.fail("JoinGroup", ErrorCode.UNKNOWN_MEMBER_ID, member_id="other")
    response = await harness.call(9, REQUEST, JoinGroupResponse)
    assert (response.error_code, response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "m")
