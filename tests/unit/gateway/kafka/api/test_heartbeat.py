"""Heartbeat: forwarded to the group coordinator."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.kafka_wire.messages import HeartbeatRequest, HeartbeatResponse
from tests.unit.gateway.kafka.api.harness import Harness


@pytest.mark.parametrize(("version", "static"), [(0, False), (2, False), (3, True), (4, True)])
async def test_the_request_is_forwarded(harness: Harness, version: int, static: bool) -> None:
    harness.services.reply("Heartbeat", pb.HeartbeatResponse())
    request = HeartbeatRequest(group_id="g", generation_id=4, member_id="m", group_instance_id="i")
    assert (await harness.call(version, request, HeartbeatResponse)).error_code == ErrorCode.NONE
    sent = harness.services.only("Heartbeat")
    assert (sent.group_id, sent.generation_id, sent.member_id) == ("g", 4, "m")
    assert (sent.HasField("group_instance_id"), sent.group_instance_id) == (static, "i" if static else "")


async def test_errors_are_returned(harness: Harness) -> None:
    harness.services.fail("Heartbeat", ErrorCode.REBALANCE_IN_PROGRESS)
    response = await harness.call(4, HeartbeatRequest(group_id="g", member_id="m"), HeartbeatResponse)
    assert response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    empty = await harness.call(4, HeartbeatRequest(group_id=""), HeartbeatResponse)
    assert empty.error_code == ErrorCode.INVALID_GROUP_ID
    harness.lead_elsewhere()
    moved = await harness.call(4, HeartbeatRequest(group_id="g"), HeartbeatResponse)
    assert moved.error_code == ErrorCode.NOT_COORDINATOR
