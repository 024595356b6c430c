"""From the bytes of a request to the bytes of its response."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.dispatch import decode, serve
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import codec_of, read_response, request_frame
from sharebroker_server.kafka_wire.messages import ApiVersionsResponse, HeartbeatRequest, HeartbeatResponse
from tests.unit.gateway.kafka.api.harness import Harness

HEARTBEAT = 12


@pytest.fixture
async def harness() -> Any:
    harness = Harness()
    yield harness
    await harness.close()


def header(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 7, -1)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (header(9999, 0), "API key 9999 is not served"),
        (header(HEARTBEAT, 99), "Heartbeat version 99 is not supported; 0 to 4 are"),
        (header(HEARTBEAT, 0), "The message ends too early"),
    ],
)
def test_invalid_requests_close_the_connection(harness: Harness, frame: bytes, reason: str) -> None:
    with pytest.raises(BadMessage, match=reason):
        decode(harness.listener, harness.client, harness.view, frame)


async def test_api_versions_of_an_unknown_version_returns_version_0(harness: Harness) -> None:
    decoded = decode(harness.listener, harness.client, harness.view, header(18, 99))
    (encoded,) = await serve([decoded])
    assert encoded is not None
    number, response = read_response(bytes(encoded.content[4:]), codec_of(18, 0))
    assert isinstance(response, ApiVersionsResponse)
    assert (number, response.error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
    assert response.api_keys


async def test_requests_and_failures_are_counted(harness: Harness) -> None:
    harness.services.reply("Heartbeat", pb.HeartbeatResponse())
    await harness.call(4, HeartbeatRequest(group_id="g"), HeartbeatResponse)
    harness.services.fail("Heartbeat", ErrorCode.UNKNOWN_MEMBER_ID)
    await harness.call(4, HeartbeatRequest(group_id="g"), HeartbeatResponse)
    metrics = harness.listener.metrics
    assert (metrics.requests[HEARTBEAT], metrics.failures[HEARTBEAT]) == (2, 1)
    assert harness.listener.fetches_in_flight == 0


async def test_an_unexpected_exception_is_logged_and_sent_as_an_error(harness: Harness) -> None:
    def fail(_: Any) -> Any:
        raise RuntimeError("on demand")

    harness.services.reply("Heartbeat", fail)
    with structlog.testing.capture_logs() as log:
        response = await harness.call(4, HeartbeatRequest(group_id="g"), HeartbeatResponse)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [(line["event"], line["api"], line["version"]) for line in log] == [
        ("kafka request failed", "Heartbeat", 4)
    ]
    assert not isinstance(log[0]["exc_info"], KafkaError)


async def test_an_error_without_a_valid_response_is_sent_as_a_server_error(harness: Harness) -> None:
    harness.services.fail("Heartbeat", ErrorCode.UNKNOWN_MEMBER_ID)
    codec = codec_of(HEARTBEAT, 4)
    frame = bytes(request_frame(7, "client", codec, HeartbeatRequest(group_id="g")))
    decoded = decode(harness.listener, harness.client, harness.view, frame[4:])
    refuse = decoded.api.refuse

    def refuse_server_errors(call: Any, error: KafkaError) -> Any:
        if error.code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            raise ValueError("on demand")
        return refuse(call, error)

    with structlog.testing.capture_logs() as log:
        (encoded,) = await serve([decoded._replace(api=replace(decoded.api, refuse=refuse_server_errors))])
    assert encoded is not None
    _, response = read_response(bytes(encoded.content[4:]), codec)
    assert isinstance(response, HeartbeatResponse)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [line["event"] for line in log] == ["kafka request failed"]
