"""Committed offsets of consumer groups."""

from __future__ import annotations

import pytest

from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    ConsumersDescription,
    FetchOffsets,
    GroupOffsets,
    Leaver,
    ListConsumers,
)
from tests.unit.group_coordinator.consumer_harness import AT, ConsumerHarness


@pytest.fixture
def group() -> ConsumerHarness:
    return ConsumerHarness()


def test_offsets_survive_members_and_fail_over(group: ConsumerHarness) -> None:
    generation = group.stable("a")
    group.commit(5, "a", generation)
    group.commit(7, "a", generation)
    assert group.leave(Leaver("a")) == [None]
    group.reload()
    assert group.committed() == {AT: 7}
    assert group.described() == ConsumersDescription("Empty", "consumer", "", ())
    assert group.request(ListConsumers(), dict) == {"g": ("Empty", "consumer")}
    group.commit(3)  # an administrator
    assert group.committed() == {AT: 3}
    assert group.request(FetchOffsets("other"), GroupOffsets) == ({}, frozenset())
    group.stable("b")
    assert group.request(ListConsumers(), dict) == {"g": ("Stable", "consumer")}
