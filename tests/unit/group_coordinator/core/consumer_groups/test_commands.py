"""Defaults of commands about consumer groups."""

from __future__ import annotations

import pytest

from tests.unit.group_coordinator.consumer_harness import ConsumerHarness


@pytest.fixture
def group() -> ConsumerHarness:
    return ConsumerHarness()


def test_join_version_0_uses_the_session_timeout_for_rebalances(group: ConsumerHarness) -> None:
    group.joined(group.join("", fresh="a", rebalance_timeout=-0.001, session_timeout=30.0))
    waiting = group.join("", fresh="b", rebalance_timeout=-0.001)
    group.pass_time(29)
    assert group.waits(waiting)
    group.pass_time(1)
    assert group.joined(waiting).leader == "b"
