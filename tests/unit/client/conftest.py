"""Fixtures of the client's unit tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.client.fake_gateway import FakeGateway


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    async with FakeGateway() as fake:
        yield fake
