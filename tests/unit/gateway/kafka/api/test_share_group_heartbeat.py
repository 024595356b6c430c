"""ShareGroupHeartbeat: membership, and the assignment if there is one."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.kafka_wire.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

MEMBER = "member-0123456789"


def request(**fields: Any) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(**{"group_id": "g", "member_id": MEMBER, "member_epoch": 4, **fields})


async def test_an_unchanged_member_has_no_assignment(harness: Harness) -> None:
    answer = pb.ShareGroupHeartbeatResponse(member_id=MEMBER, member_epoch=4, heartbeat_interval_ms=5000)
    harness.services.reply("ShareGroupHeartbeat", answer)
    response = await harness.call(1, request(), ShareGroupHeartbeatResponse)
    assert (response.error_code, response.error_message, response.assignment) == (0, None, None)
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == (MEMBER, 4, 5000)
    sent = harness.services.only("ShareGroupHeartbeat")
    assert (sent.group_id, sent.member_id, sent.member_epoch) == ("g", MEMBER, 4)
    assert (sent.client_id, sent.client_host) == ("client", "/10.0.0.1")
    assert [sent.HasField(name) for name in ("rack_id", "subscribed_topic_names")] == [False, False]


async def test_a_joining_member_receives_its_assignment(harness: Harness) -> None:
    answer = pb.ShareGroupHeartbeatResponse(member_id=MEMBER, member_epoch=1)
    answer.assignment.topic_partitions.add(topic_id=TOPIC.topic_id, partitions=[0, 1])
    harness.services.reply("ShareGroupHeartbeat", answer)
    join = request(member_epoch=0, rack_id="r", subscribed_topic_names=["flights"])
    response = await harness.call(1, join, ShareGroupHeartbeatResponse)
    assert response.assignment is not None
    (assigned,) = response.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (TOPIC.topic_id, [0, 1])
    sent = harness.services.only("ShareGroupHeartbeat")
    assert (sent.rack_id, sent.subscribed_topic_names.names) == ("r", ["flights"])


async def test_errors_have_a_message(harness: Harness) -> None:
    harness.services.fail("ShareGroupHeartbeat", ErrorCode.FENCED_MEMBER_EPOCH)
    response = await harness.call(1, request(), ShareGroupHeartbeatResponse)
    assert (response.error_code, response.error_message) == (ErrorCode.FENCED_MEMBER_EPOCH, "on demand")
    for invalid in (request(group_id=""), request(member_id="")):
        response = await harness.call(1, invalid, ShareGroupHeartbeatResponse)
        assert response.error_code == ErrorCode.INVALID_REQUEST
    harness.lead_elsewhere()
    response = await harness.call(1, request(), ShareGroupHeartbeatResponse)
    assert response.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("harness", [{"share.version": 0}], indirect=True)
async def test_the_feature_disables_the_api(harness: Harness) -> None:
    response = await harness.call(1, request(), ShareGroupHeartbeatResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
