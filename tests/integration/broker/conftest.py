"""A client of each running Sharebroker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.client import Client, connected


@pytest.fixture
async def client(server: str) -> AsyncIterator[Client]:
    """Provides raw stubs of a running Sharebroker: one process, then four."""
    async with connected(server) as client:
        yield client
