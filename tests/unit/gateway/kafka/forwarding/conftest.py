"""Listeners that pass requests to another cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.kafka.api.harness import Harness
from tests.unit.gateway.kafka.forwarding.harness import FakeUpstream, pass_to


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Runs each test on the event loop of servers: handlers use no transports."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def upstream() -> FakeUpstream:
    """The cluster."""
    return FakeUpstream()


@pytest.fixture
async def harness(upstream: FakeUpstream) -> AsyncIterator[Harness]:
    """A listener without sockets that passes requests to the cluster."""
    harness = Harness()
    pass_to(harness, upstream)
    yield harness
    await harness.close()


@pytest.fixture
def authorizer(harness: Harness) -> TableAuthorizer:
    """The authorizer of the listener, whose decisions a test sets."""
    authorizer = harness.gateway.authorizer = TableAuthorizer()
    return authorizer
