"""A cluster of group coordinators, and one broker of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.scenarios.group_coordinator.harness import Broker, Cluster


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    yield cluster
    await cluster.close()


@pytest.fixture
async def broker(cluster: Cluster) -> Broker:
    return await cluster.start(1)
