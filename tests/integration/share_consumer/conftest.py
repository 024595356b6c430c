"""Fixtures of the scenarios; README.md says which of Kafka's stands where."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.share_consumer.harness import Harness


@pytest.fixture
async def harness(server: str) -> AsyncIterator[Harness]:
    """Topics and groups of its own on the shared server."""
    async with Harness(server) as harness:
        yield harness
