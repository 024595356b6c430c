"""Kafka listeners for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import pytest
import uvloop

from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.kafka_wire.messages import ApiVersionsRequest
from tests.unit.gateway.kafka.api.harness import Harness as ApiHarness
from tests.unit.gateway.kafka.harness import Harness, serving

TRANSPORTS: Final = {"test_buffers", "test_coarse_timer", "test_connection", "test_listener"}
"""Test modules of code that uses transports and timers of the event loop."""


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Runs tests of transports on asyncio and on uvloop, which has its own; servers use uvloop."""
    uses_transports = item.path.stem in TRANSPORTS
    more = {"asyncio": asyncio.new_event_loop} if uses_transports else {}
    return more | {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    """A listener; its parameters are properties with _ for dots."""
    async with serving(Harness(**getattr(request, "param", {}))) as harness:
        yield harness


@pytest.fixture
async def api_harness() -> AsyncIterator[ApiHarness]:
    """A listener without sockets, for tests of what handlers share."""
    harness = ApiHarness()
    yield harness
    await harness.close()


@pytest.fixture
def call(api_harness: ApiHarness) -> Call:
    """A call without a request of its own."""
    return api_harness.call_of(ApiVersionsRequest())
