"""ConsumerGroupHeartbeat: rejected with a hint at the classic protocol."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.unit.gateway.kafka.api.harness import Harness


@pytest.mark.parametrize("version", [0, 1])
async def test_the_new_protocol_is_unsupported(harness: Harness, version: int) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    response = await harness.call(version, request, ConsumerGroupHeartbeatResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "group.protocol=classic" in (response.error_message or "")
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == (None, -1, 0)
