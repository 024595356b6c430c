"""Backoff, and calls to coordinators that moved."""

from __future__ import annotations

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.gateway.clients.coordinators import Backoff
from tests.unit.gateway.conftest import Harness


async def test_backoff_ends_at_the_deadline() -> None:
    backoff = Backoff(Deadline(0.05))
    pauses = 0
    while await backoff.pause():
        pauses += 1
    assert 1 <= pauses <= 3


@pytest.mark.parametrize("in_band", [False, True])
async def test_heartbeat_is_retried_at_the_new_coordinator(harness: Harness, in_band: bool) -> None:
    if in_band:
        harness.coordinator.answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    else:
        harness.coordinator.refusals = [KafkaError(ErrorCode.NOT_COORDINATOR)]
    request = group.ShareGroupHeartbeatRequest(group_id="group", member_id="me")
    answer = await harness.share.ShareGroupHeartbeat(request)
    assert (answer.member_epoch, len(harness.coordinator.heartbeats)) == (1, 2)
    assert harness.coordinator.heartbeats[0].client_host.startswith("ipv4:")


@pytest.mark.parametrize(
    ("number", "code"), [(6, ErrorCode.NOT_LEADER_OR_FOLLOWER), (9999, ErrorCode.UNKNOWN_SERVER_ERROR)]
)
def test_unknown_error_codes_are_unknown_server_error(number: int, code: ErrorCode) -> None:
    assert ErrorCode(number) is code
