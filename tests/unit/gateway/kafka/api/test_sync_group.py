"""SyncGroup: assignments of the leader, and the member's own one."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.kafka_wire.messages import SyncGroupRequest, SyncGroupResponse
from tests.unit.gateway.kafka.api.harness import Harness


def request(**fields: Any) -> SyncGroupRequest:
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id="n", assignment=b"parts")
    defaults = {"protocol_type": "consumer", "protocol_name": "range", "group_instance_id": "i"}
    return SyncGroupRequest(
        group_id="g", generation_id=4, member_id="m", assignments=[assignment], **{**defaults, **fields}
    )


@pytest.mark.parametrize("version", [0, 3, 4, 5])
async def test_the_request_is_forwarded(harness: Harness, version: int) -> None:
    answer = pb.SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=b"mine")
    harness.services.reply("SyncGroup", answer)
    response = await harness.call(version, request(), SyncGroupResponse)
    assert (response.error_code, response.assignment) == (ErrorCode.NONE, b"mine")
    protocol = ("consumer", "range") if version >= 5 else (None, None)
    assert (response.protocol_type, response.protocol_name) == protocol
    sent = harness.services.only("SyncGroup")
    assert (sent.group_id, sent.generation_id, sent.member_id) == ("g", 4, "m")
    assert sent.HasField("group_instance_id") is (version >= 3)
    assert sent.HasField("protocol_type") is (version >= 5)
    assert [(one.member_id, one.assignment) for one in sent.assignments] == [("n", b"parts")]


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
async def test_version_5_requires_the_protocol(harness: Harness, missing: str) -> None:
    response = await harness.call(5, request(**{missing: None}), SyncGroupResponse)
    assert (response.error_code, response.assignment) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b"")
    assert not harness.services.requests


async def test_errors_are_returned(harness: Harness) -> None:
    harness.services.fail("SyncGroup", ErrorCode.REBALANCE_IN_PROGRESS)
    response = await harness.call(5, request(), SyncGroupResponse)
    assert (response.error_code, response.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
