"""Handlers for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.kafka.api.harness import Harness


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
