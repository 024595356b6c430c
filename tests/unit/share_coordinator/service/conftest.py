"""A share coordinator that holds every shard."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.share_coordinator.service.process import Process


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    process = Process()
    await process.start()
    yield process
    await process.holder.stop()
