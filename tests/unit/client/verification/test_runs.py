"""Replay, compared with a naive one that works offset by offset."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker.verification.runs import (
    UNTOUCHED,
    OffsetOutcome,
    OffsetRun,
    OffsetSpan,
    OutcomeRun,
    RecordLog,
    at,
    differences,
    outcome_runs,
    replay,
)

OFFSETS = st.integers(0, 12)


def _details(state: int, time: int, number: int) -> tuple[int, ...]:
    """Returns the time and token of an available record, disposition and time of an archiving one."""
    if state == 3:
        return 0, 0, number, time
    return (time, number) if time and not state else ()


RUNS = st.lists(
    st.builds(
        lambda first, size, state, deliveries, time, token: OffsetRun(
            first, first + size - 1, state, deliveries, *_details(state, time, token)
        ),
        OFFSETS,
        st.integers(0, 5),
        st.sampled_from((0, 0, 2, 3, 4)),
        st.integers(0, 3),
        st.sampled_from((0, 1, 2)),
        st.integers(0, 2),
    ),
    max_size=8,
)


def naive(runs: list[OffsetRun], start: int) -> dict[int, tuple[int, ...]]:
    """The greatest (deliveries, state) of each offset, and the last details among equal ones."""
    known: dict[int, tuple[int, ...]] = {}
    for run in runs:
        for offset in range(max(run.first, start), run.last + 1):
            state, deliveries, *_ = known.get(offset, UNTOUCHED)
            if (run.deliveries, run.state) >= (deliveries, state):
                known[offset] = run[2:]
    return known


@given(RUNS, st.integers(-1, 12))
def test_replay_keeps_the_greatest_state_of_each_offset(written: list[OffsetRun], start: int) -> None:
    known = replay(written, start)
    found = {offset: run[2:] for run in known for offset in range(run.first, run.last + 1)}
    assert found == naive(written, start)
    assert replay(known, start) == known
    for before, after in pairwise(known):
        assert before.last < after.first
        assert before.last + 1 < after.first or before[2:] != after[2:]


@given(RUNS, RUNS)
def test_differences_are_listed_by_offset(one: list[OffsetRun], other: list[OffsetRun]) -> None:
    left, right = replay(one, 0), replay(other, 0)
    spans = list(differences(left, right))
    different = {offset for span in spans for offset in range(span.first, span.last + 1)}
    mine, theirs = naive(one, 0), naive(other, 0)
    assert different == {
        offset for offset in range(30) if mine.get(offset, UNTOUCHED) != theirs.get(offset, UNTOUCHED)
    }


def test_long_runs_are_replayed_without_a_cost_per_offset() -> None:
    most = OffsetRun(0, 2**62, 2, 1)
    assert replay([most, OffsetRun(5, 5, 4, 2)], 0)[1] == OffsetRun(5, 5, 4, 2)
    assert at([most], 2**61) == (2, 1, 0, 0, 0, 0)
    assert list(differences([most], [])) == [OffsetSpan(0, 2**62)]


@given(RUNS, st.integers(-1, 14), OFFSETS, OFFSETS)
def test_every_offset_has_one_outcome(
    written: list[OffsetRun], start: int, log_start: int, size: int
) -> None:
    end = log_start + size
    log = RecordLog(
        log_start, end, held=[OffsetSpan(3, 4)], markers=[OffsetSpan(6, 6)], missing=[OffsetSpan(9, 9)]
    )
    found = outcome_runs(log, start, replay(written, start))
    assert [offset for run in found for offset in range(run.first, run.last + 1)] == list(
        range(log_start, end)
    )
    assert sum(run.offsets for run in found) == size


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (
            -1,
            [
                (0, 2, OffsetOutcome.UNDECIDED, 0),
                (3, 4, OffsetOutcome.ACCEPTED, 1),
                (5, 5, OffsetOutcome.ARCHIVED, 2),
                (6, 6, OffsetOutcome.UNDECIDED, 3),
                (7, 8, OffsetOutcome.IN_DELIVERY, 0),
                (9, 9, OffsetOutcome.UNDECIDED, 0),
                (10, 10, OffsetOutcome.GAP, 0),
            ],
        ),
        (
            2,
            [
                (0, 1, OffsetOutcome.PASSED, 0),
                (2, 2, OffsetOutcome.AVAILABLE, 0),
                (3, 4, OffsetOutcome.ACCEPTED, 1),
                (5, 5, OffsetOutcome.ARCHIVED, 2),
                (6, 6, OffsetOutcome.AVAILABLE, 3),
                (7, 8, OffsetOutcome.IN_DELIVERY, 0),
                (9, 9, OffsetOutcome.AVAILABLE, 0),
                (10, 10, OffsetOutcome.GAP, 0),
            ],
        ),
        (12, [(0, 10, OffsetOutcome.PASSED, 0)]),
    ],
)
def test_outcome_of_each_run_follows_log_and_state(
    start: int, expected: list[tuple[int, int, OffsetOutcome, int]]
) -> None:
    runs = [OffsetRun(3, 4, 2, 1), OffsetRun(5, 5, 4, 2), OffsetRun(6, 6, 0, 3)]
    log = RecordLog(0, 11, held=[OffsetSpan(4, 4), OffsetSpan(7, 8)], markers=[OffsetSpan(10, 10)])
    assert [run[:4] for run in outcome_runs(log, start, runs)] == expected


def test_failed_records_have_a_disposition_and_a_time() -> None:
    runs = [OffsetRun(6, 7, 4, 2), OffsetRun(8, 8, 2, 1)]
    failed = [
        OutcomeRun(1, 2, OffsetOutcome.EXPIRED, 0, 5.0),
        OutcomeRun(4, 6, OffsetOutcome.REJECTED, 2, 6.0),
        OutcomeRun(8, 9, OffsetOutcome.EXHAUSTED, 5, 7.0),
    ]
    assert [run[:5] for run in outcome_runs(RecordLog(0, 11), 5, runs, 0.0, failed)] == [
        (0, 0, OffsetOutcome.PASSED, 0, 0.0),
        (1, 2, OffsetOutcome.EXPIRED, 0, 5.0),
        (3, 3, OffsetOutcome.PASSED, 0, 0.0),
        (4, 4, OffsetOutcome.REJECTED, 2, 6.0),
        (5, 5, OffsetOutcome.AVAILABLE, 0, 0.0),
        (6, 6, OffsetOutcome.REJECTED, 2, 6.0),
        (7, 7, OffsetOutcome.ARCHIVED, 2, 0.0),
        (8, 8, OffsetOutcome.ACCEPTED, 1, 0.0),
        (9, 10, OffsetOutcome.AVAILABLE, 0, 0.0),
    ]
    assert sum(run.offsets for run in outcome_runs(RecordLog(2, 5), 5, runs, 0.0, failed)) == 3


@pytest.mark.parametrize("listed", [True, False])
def test_archiving_records_have_a_disposition_with_and_without_a_journal(listed: bool) -> None:
    runs = [OffsetRun(5, 6, 3, 2, disposition=2, failed_ms=7500), OffsetRun(7, 7, 3, 1)]
    failed = [OutcomeRun(5, 7, OffsetOutcome.EXHAUSTED, 2, 7.5)] if listed else []
    log = RecordLog(5, 8, held=[OffsetSpan(7, 7)])
    assert outcome_runs(log, 5, runs, 0.0, failed) == [
        OutcomeRun(5, 6, OffsetOutcome.ARCHIVING, 2, 7.5, "exhausted"),
        OutcomeRun(7, 7, OffsetOutcome.ARCHIVING, 1),
    ]


@pytest.mark.parametrize(
    ("now_ms", "expected"),
    [
        (999, [(0, 1, OffsetOutcome.WAITING, 1), (2, 2, OffsetOutcome.WAITING, 2)]),
        (1000, [(0, 1, OffsetOutcome.AVAILABLE, 1), (2, 2, OffsetOutcome.WAITING, 2)]),
        (2000, [(0, 1, OffsetOutcome.AVAILABLE, 1), (2, 2, OffsetOutcome.IN_DELIVERY, 2)]),
    ],
)
def test_available_records_wait_until_their_time(
    now_ms: float, expected: list[tuple[int, int, OffsetOutcome, int]]
) -> None:
    runs = [OffsetRun(0, 1, 0, 1, 1000), OffsetRun(2, 2, 0, 2, 2000)]
    log = RecordLog(0, 3, held=[OffsetSpan(2, 2)])
    assert [run[:4] for run in outcome_runs(log, 0, runs, now_ms)] == expected


@pytest.mark.parametrize(
    ("now_ms", "outcome"), [(999, OffsetOutcome.IN_DELIVERY), (1000, OffsetOutcome.AVAILABLE)]
)
def test_durable_lock_is_in_delivery_until_its_end(now_ms: float, outcome: OffsetOutcome) -> None:
    """The leader that would list it has not loaded the share-partition."""
    runs = [OffsetRun(0, 1, 0, 1, 1000, 7)]
    assert [run[:4] for run in outcome_runs(RecordLog(0, 2), 0, runs, now_ms)] == [(0, 1, outcome, 1)]


def test_states_with_different_locks_differ() -> None:
    assert [*differences([OffsetRun(0, 1, 0, 1, 1000, 7)], [OffsetRun(0, 1, 0, 1, 1000, 8)])] == [
        OffsetSpan(0, 1)
    ]


def test_the_last_of_equal_states_has_the_time() -> None:
    first, second = OffsetRun(0, 4, 0, 1, 2000), OffsetRun(2, 3, 0, 1, 1000)
    assert replay([first, second, OffsetRun(3, 3, 0, 1)], 0) == [
        OffsetRun(0, 1, 0, 1, 2000),
        OffsetRun(2, 2, 0, 1, 1000),
        OffsetRun(3, 3, 0, 1),
        OffsetRun(4, 4, 0, 1, 2000),
    ]
    assert replay([second, first], 0) == [first]
    assert [*differences([first], replay([first, second], 0))] == [OffsetSpan(2, 3)]


def test_outcomes_have_json_names() -> None:
    assert [outcome.key for outcome in OffsetOutcome if " " in outcome] == [
        "in_delivery",
        "for_others",
    ]
