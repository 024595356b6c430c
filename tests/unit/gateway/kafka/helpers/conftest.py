"""Calls for the tests of helpers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sharebroker_server.gateway.kafka.dispatch.call import Call
from sharebroker_server.kafka_wire.messages import ApiVersionsRequest
from tests.unit.gateway.kafka.api.harness import Harness


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness()
    yield harness
    await harness.close()


@pytest.fixture
def call(harness: Harness) -> Call:
    """A call without a request of its own."""
    return harness.call_of(ApiVersionsRequest())
