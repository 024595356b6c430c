"""Fixtures of lease tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.leases.harness import Cluster


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.store.away = False
    for node in cluster.nodes:
        node.closing.set()
        await node.holder.stop()
