"""The harness of these tests, on an event loop whose waits take no time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.unit.share_partition_leader.harness import Harness
from tests.unit.share_partition_leader.harness import harness as started
from tests.unit.share_partition_leader.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualLoop}


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    """A process with one topic of one partition."""
    async with started() as running:
        await running.create_topic()
        yield running
