"""Deadlines, and state changes in progress."""

from __future__ import annotations

from sharebroker_server.group_coordinator.core.deadlines import (
    Deadlines,
    DeadlineSet,
    StateChangesInProgress,
)
from tests.unit.group_coordinator.harness import tp


def test_due_keys_are_ordered_by_deadline_and_stay_due() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 1.0)
    deadlines.set("b", 2.0)
    deadlines.set("a", 3.0)
    assert [deadlines.due(5.0, 10), deadlines.due(5.0, 10)] == [["b", "a"], ["b", "a"]]
    assert deadlines.due(5.0, 1) == ["b"]


def test_soft_change_sets_or_removes_a_deadline() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.apply_soft(DeadlineSet("a", 1.0))
    assert "a" in deadlines
    deadlines.apply_soft(DeadlineSet("a", None))
    assert "a" not in deadlines
    assert deadlines.due(5.0, 10) == []


def test_key_with_duplicate_heap_entries_is_due_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for _ in range(2):
        deadlines.drop("a")
        deadlines.set("a", 1.0)
    assert deadlines.due(5.0, 10) == ["a"]


def test_earlier_deadline_applies_at_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 100.0)
    deadlines.set("a", 50.0)
    assert deadlines.next_deadline() == 50.0
    assert deadlines.due(60.0, 10) == ["a"]
    deadlines.drop("a")
    assert deadlines.due(200.0, 10) == []
    assert deadlines.next_deadline() is None


def test_later_deadline_is_checked_again() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 50.0)
    deadlines.set("a", 100.0)
    assert deadlines.due(60.0, 10) == []
    assert deadlines.next_deadline() == 100.0


def test_outdated_heap_entries_are_skipped() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for _ in range(3):
        deadlines.set("a", 50.0)
        deadlines.drop("a")
    deadlines.set("a", 70.0)
    assert deadlines.due(60.0, 10) == []
    assert deadlines.due(70.0, 10) == ["a"]


def test_state_changes_last_until_they_end_or_time_out() -> None:
    attempts = StateChangesInProgress()
    attempts.begin("g", tp("t", 0, 1), 10.0)
    attempts.begin("g", tp("t", 2), 20.0)
    assert attempts.running("g", 5.0) == tp("t", 0, 1, 2)
    assert attempts.running("g", 10.0) == tp("t", 2)
    attempts.end("g", tp("t", 2))
    assert attempts.running("g", 5.0) == tp("t", 0, 1)
    attempts.end("g", tp("t", 0, 1, 7))
    attempts.end("other", tp("t", 0))
    assert attempts.running("g", 5.0) == attempts.running("other", 5.0) == set()


def test_state_change_without_partitions_is_not_stored() -> None:
    attempts = StateChangesInProgress()
    attempts.begin("g", (), 10.0)
    assert attempts._until == {}
