"""Changes and effects that a decision about a share group omits where nothing happens."""

from __future__ import annotations

from sharebroker_server.group_coordinator.core.share_groups.commands import (
    Rebalanced,
    StateChangeBegun,
    rebalanced,
)
from tests.unit.group_coordinator.harness import tp


def test_change_of_share_state_names_its_partitions_once() -> None:
    partitions = [*tp("t", 0, 1), *tp("t", 1)]
    assert StateChangeBegun.of("g", partitions, 5.0) == (StateChangeBegun("g", tp("t", 0, 1), 5.0),)


def test_no_partitions_begin_no_change_of_share_state() -> None:
    assert StateChangeBegun.of("g", (), 5.0) == ()


def test_rebalances_are_counted_in_one_effect() -> None:
    assert rebalanced(2) == (Rebalanced(2),)
    assert rebalanced(0) == ()
