"""Handlers for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.kafka.api.harness import Harness


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Runs each test on the event loop of servers: handlers use no transports."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    """A listener without sockets; its parameters are features."""
    harness = Harness(getattr(request, "param", None))
    yield harness
    await harness.close()


@pytest.fixture
def authorizer(harness: Harness) -> TableAuthorizer:
    """The authorizer of the listener, whose decisions a test sets."""
    authorizer = harness.gateway.authorizer = TableAuthorizer()
    return authorizer
