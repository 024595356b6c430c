"""A cluster without processes; tests start them with `running`."""

from __future__ import annotations

import pytest

from tests.scenarios.group_coordinator.transaction_harness import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()
