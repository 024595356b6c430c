"""Fixtures of the share consumer scenarios; README.md maps them to Kafka's."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.share_consumer.harness import Harness


@pytest.fixture
async def harness(server: str) -> AsyncIterator[Harness]:
    """Provides topics and groups of its own on the shared server."""
    async with Harness(server) as harness:
        yield harness
