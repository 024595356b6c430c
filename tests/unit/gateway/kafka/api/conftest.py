"""Handlers for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.gateway.kafka.api.harness import Harness


@pytest.fixture
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    """A listener without sockets; its parameters are features."""
    harness = Harness(getattr(request, "param", None))
    yield harness
    await harness.close()
