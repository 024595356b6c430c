"""Runs: which of them unite, and locks: which offsets they cover."""

from __future__ import annotations

import pytest

from sharebroker_server.share_partition_leader.core.runs import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    Batch,
    Lock,
    Run,
    Transition,
)

UNIT = Batch(0, 99)
LOCK = Lock("m", 1, 30.0)


def waiting(first: int, last: int) -> Run:
    run = Run(first, last, AVAILABLE, 1, UNIT)
    run.not_before_ms = 7
    return run


def pending(first: int, last: int) -> Run:
    run = Run(first, last, ACQUIRED, 1, UNIT, LOCK)
    run.pending = Transition()
    return run


@pytest.mark.parametrize(
    ("one", "other", "unite"),
    [
        pytest.param(Run(0, 4, AVAILABLE, 1, UNIT), Run(5, 9, AVAILABLE, 1, UNIT), True, id="equal"),
        pytest.param(Run(0, 4, AVAILABLE, 1, UNIT), Run(6, 9, AVAILABLE, 1, UNIT), False, id="apart"),
        pytest.param(Run(0, 4, AVAILABLE, 1, UNIT), Run(5, 9, AVAILABLE, 2, UNIT), False, id="other count"),
        pytest.param(Run(0, 4, ACKNOWLEDGED, 1, UNIT), Run(5, 9, ARCHIVED, 1, UNIT), False, id="other state"),
        pytest.param(
            Run(0, 4, AVAILABLE, 1, UNIT), Run(5, 9, AVAILABLE, 1, Batch(5, 9)), False, id="other batch"
        ),
        pytest.param(
            Run(0, 4, ACKNOWLEDGED, 1, UNIT),
            Run(5, 9, ACKNOWLEDGED, 1, Batch(5, 9)),
            True,
            id="finished, other batch",
        ),
        pytest.param(
            Run(0, 4, ACQUIRED, 1, UNIT, LOCK),
            Run(5, 9, ACQUIRED, 1, UNIT, Lock("m", 2, 30.0)),
            False,
            id="other lock",
        ),
        pytest.param(
            waiting(0, 4),
            waiting(5, 9),
            True,
            id="one time",
        ),
        pytest.param(
            waiting(0, 4),
            Run(5, 9, AVAILABLE, 1, UNIT),
            False,
            id="only one waits",
        ),
        pytest.param(
            pending(0, 4),
            Run(5, 9, ACQUIRED, 1, UNIT, LOCK),
            False,
            id="pending",
        ),
    ],
)
def test_adjacent_runs_unite_that_differ_in_their_offsets_only(one: Run, other: Run, unite: bool) -> None:
    assert one.continues_as(other) is unite


def test_a_run_that_waits_is_not_ready() -> None:
    run = waiting(0, 4)
    assert not run.ready
    run.unlock(AVAILABLE)
    assert (run.ready, run.size) == (True, 5)


def test_a_lock_covers_all_offsets_that_were_added() -> None:
    lock = Lock("m", 1, 30.0)
    for first, last in ((10, 19), (30, 39), (5, 6)):
        lock.cover(first, last)
    assert (lock.first, lock.last) == (5, 39)


def test_a_transition_marks_its_runs() -> None:
    transition, run = Transition(), Run(0, 4, ACQUIRED, 1, UNIT, LOCK)
    run.target_not_before_ms = 7
    transition.add(run, ARCHIVED)
    assert (run.pending, run.target, run.target_not_before_ms) == (transition, ARCHIVED, 0)
