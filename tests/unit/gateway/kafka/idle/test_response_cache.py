"""The cached response of an idle client: acceptance, end of the wait, changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from typing_extensions import override

from sharebroker_server.gateway.kafka.idle.response_cache import CachedResponse, Prediction
from sharebroker_server.kafka_wire.frames import codec_of, read_response, request_frame
from sharebroker_server.kafka_wire.messages import HeartbeatRequest, HeartbeatResponse
from tests.unit.gateway.kafka.api.harness import Harness

HEARTBEAT, VERSION = 12, 4
REQUEST = HeartbeatRequest(group_id="g", member_id="m")


class Cache(CachedResponse):
    current = True

    @override
    def _accepts(self, data: bytes) -> bool:
        return self._template.matches(data)

    @override
    def _is_current(self) -> bool:
        return self.current


class Client:
    """An idle client and its cached response after a wait of 10 ms."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.replies: list[bytearray] = []
        self.dispatched: list[tuple[bytes, float]] = []
        call = harness.call_of(REQUEST, VERSION)
        prediction = Prediction(HEARTBEAT, HeartbeatResponse(throttle_time_ms=3), wait=0.01)
        self.cache = Cache(call, prediction, self.replies.append, self._dispatch)

    def _dispatch(self, data: bytes, queued_for: float) -> None:
        self.dispatched.append((data, queued_for))

    def frame(self, number: int, request: HeartbeatRequest = REQUEST) -> bytes:
        return bytes(request_frame(number, "client", codec_of(HEARTBEAT, VERSION), request))


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    harness = Harness()
    yield Client(harness)
    await harness.close()


async def test_the_response_has_the_correlation_id_of_the_request(client: Client) -> None:
    for number in (5, 6):
        assert client.cache.accept(client.frame(number))
        assert client.cache.waiting
        await asyncio.sleep(0.05)
        assert not client.cache.waiting
        found, response = read_response(bytes(client.replies[-1][4:]), codec_of(HEARTBEAT, VERSION))
        assert (found, response) == (number, HeartbeatResponse(throttle_time_ms=3))
    assert client.harness.listener.metrics.cached[HEARTBEAT] == 2
    assert client.dispatched == []


async def test_another_request_is_not_accepted(client: Client) -> None:
    assert not client.cache.accept(client.frame(5, HeartbeatRequest(group_id="g", member_id="n")))
    assert not client.cache.waiting


async def test_a_change_has_the_request_served_after_the_wait(client: Client) -> None:
    client.cache.accept(client.frame(5))
    client.cache.current = False
    await asyncio.sleep(0.05)
    ((data, queued_for),) = client.dispatched
    assert data == client.frame(5)
    assert queued_for >= 0.01
    assert client.replies == []


async def test_a_cancelled_request_is_discarded(client: Client) -> None:
    client.cache.accept(client.frame(5))
    client.cache.cancel()
    await asyncio.sleep(0.05)
    assert (client.replies, client.dispatched, client.cache.waiting) == ([], [], False)
    client.cache.dispatch()
    assert client.dispatched == []
