"""Fixtures of the scenarios; README.md says which of Kafka's stands where."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.scenarios.share_consumer.world import World


@pytest.fixture
async def world(server: str) -> AsyncIterator[World]:
    """Topics and groups of its own on the shared server."""
    async with World(server) as world:
        yield world
