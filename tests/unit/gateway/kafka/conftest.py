"""Kafka listeners for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.kafka_wire.messages import ApiVersionsRequest
from tests.unit.gateway.kafka.api.harness import Harness as ApiHarness
from tests.unit.gateway.kafka.harness import Harness, serving


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Runs each test on asyncio and on uvloop, which has transports of its own; servers use uvloop."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


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
