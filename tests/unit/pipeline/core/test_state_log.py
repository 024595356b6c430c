"""The replay of a state log, KIP-932's worked examples, differences and outcomes."""

from __future__ import annotations

import pytest

from sharebroker_server.pipeline.core.state_log import (
    OffsetRange,
    OffsetStatus,
    Run,
    ShareStateView,
    StateLogEntry,
    align,
    check,
    cover,
    current_entries,
    outcomes_of,
    replay,
)
from tests.testkit.tables import each
from tests.unit.pipeline.logs import (
    ACCEPTED,
    ARCHIVED,
    AVAILABLE,
    RunValues,
    answer,
    bare,
    checkpoint,
    delta,
    runs,
)

START = checkpoint(at=130)


BATCHED = delta(at=131, start=110)


RELEASED = delta((110, 110, AVAILABLE, 1), at=132)


ACKNOWLEDGED_119 = delta((111, 118, AVAILABLE, 0), (119, 119, ACCEPTED, 1), at=133)


TIMED_OUT = delta((111, 112, AVAILABLE, 1), at=134)


ACKNOWLEDGED_113 = delta((113, 118, ACCEPTED, 1), at=135)


ACKNOWLEDGED_110 = delta((110, 110, ACCEPTED, 2), at=136, start=111)


ACKNOWLEDGED_111 = delta((111, 112, ACCEPTED, 2), at=137, start=120)


LATER_CHECKPOINT = checkpoint(at=137, epoch=2, start=120)


LATE = delta((115, 116, AVAILABLE, 1), (118, 122, ACCEPTED, 3), at=138)


STEPS: dict[str, tuple[StateLogEntry, int, list[RunValues]]] = {
    "start": (START, 100, []),
    "acknowledge 100-109": (BATCHED, 110, []),
    "release 110": (RELEASED, 110, [(110, 110, AVAILABLE, 1)]),
    "acknowledge 119": (
        ACKNOWLEDGED_119,
        110,
        [(110, 110, AVAILABLE, 1), (111, 118, AVAILABLE, 0), (119, 119, ACCEPTED, 1)],
    ),
    "lock timeout of 111, 112": (
        TIMED_OUT,
        110,
        [(110, 112, AVAILABLE, 1), (113, 118, AVAILABLE, 0), (119, 119, ACCEPTED, 1)],
    ),
    "acknowledge 113-118": (
        ACKNOWLEDGED_113,
        110,
        [(110, 112, AVAILABLE, 1), (113, 119, ACCEPTED, 1)],
    ),
    "acknowledge 110": (ACKNOWLEDGED_110, 111, [(111, 112, AVAILABLE, 1), (113, 119, ACCEPTED, 1)]),
    "acknowledge 111, 112": (ACKNOWLEDGED_111, 120, []),
    "fewer deliveries and a lower state do not count": (LATE, 120, [(120, 122, ACCEPTED, 3)]),
}


@pytest.mark.parametrize("step", range(1, len(STEPS) + 1), ids=list(STEPS))
def test_examples_of_the_drafts_replay_correctly(step: int) -> None:
    taken = list(STEPS.values())[:step]
    _, start, values = taken[-1]
    assert replay(reversed([entry for entry, _, _ in taken])) == ShareStateView(2, 5, start, runs(*values))


def test_checkpoint_replaces_earlier_records() -> None:
    before = [START, RELEASED, ACKNOWLEDGED_119]
    assert replay([*before, LATER_CHECKPOINT]) == ShareStateView(2, 5, 120, ())
    assert current_entries(
        [*before, LATER_CHECKPOINT, delta((1, 2, 0, 1), at=138), delta(at=139, epoch=2)]
    ) == [
        LATER_CHECKPOINT,
        delta(at=139, epoch=2),
    ]


def test_a_delta_may_raise_the_leader_epoch() -> None:
    assert replay([START, delta(at=131, leader=7)]) == ShareStateView(2, 7, 100, ())


def test_deleted_state_is_absent_until_initialised() -> None:
    assert replay([START, bare("tombstone", 131), delta(at=132)]) is None
    assert replay([START, bare("tombstone", 131), LATER_CHECKPOINT]) == ShareStateView(2, 5, 120, ())
    assert replay([]) is None


def test_unset_start_offset_keeps_all_runs() -> None:
    log = [checkpoint((0, 3, ARCHIVED, 1), start=-1), delta((2, 5, ACCEPTED, 2), at=2)]
    assert replay(log) == ShareStateView(2, 5, -1, runs((0, 1, ARCHIVED, 1), (2, 5, ACCEPTED, 2)))


def test_a_run_that_straddles_the_start_is_clipped() -> None:
    log = [checkpoint((100, 120, ACCEPTED, 1)), delta(at=2, start=110)]
    assert replay(log) == ShareStateView(2, 5, 110, runs((110, 120, ACCEPTED, 1)))


def test_earlier_run_covers_a_later_one() -> None:
    pieces = [
        OffsetRange(3, 5, "a"),
        OffsetRange(0, 9, "b"),
        OffsetRange(4, 12, "c"),
        OffsetRange(13, 13, "c"),
        OffsetRange(20, 20, "b"),
    ]
    assert cover(pieces) == [
        OffsetRange(0, 2, "b"),
        OffsetRange(3, 5, "a"),
        OffsetRange(6, 9, "b"),
        OffsetRange(10, 13, "c"),
        OffsetRange(20, 20, "b"),
    ]
    assert cover([]) == []


def test_runs_of_log_and_coordinator_are_aligned() -> None:
    assert align([OffsetRange(0, 4, "a")], [OffsetRange(3, 6, 1), OffsetRange(9, 9, 2)]) == [
        OffsetRange(0, 2, ("a", None)),
        OffsetRange(3, 4, ("a", 1)),
        OffsetRange(5, 6, (None, 1)),
        OffsetRange(9, 9, (None, 2)),
    ]


LOG = [checkpoint((102, 103, ACCEPTED, 1)), delta((105, 109, AVAILABLE, 2), at=2)]
ANSWER = answer((105, 109, AVAILABLE, 2), (102, 103, ACCEPTED, 1))

CASES: dict[str, tuple[list[StateLogEntry], list[tuple[int | None, int | None, str]]]] = {
    "nothing": ([], []),
    "the same": ([*LOG, ANSWER], []),
    "deleted": ([checkpoint(), bare("tombstone")], []),
    "no answer": (LOG, [(None, None, "The log has a state, but the coordinator has none.")]),
    "no log": ([ANSWER], [(None, None, "The coordinator has a state, but the log has none.")]),
    "unreadable": ([ANSWER, bare("unreadable")], [(None, None, "The log contains an invalid record.")]),
    "another start": (
        [checkpoint(), answer(start=101)],
        [(None, None, "The start is 100 in the log, but 101 in the coordinator.")],
    ),
    "other epochs": (
        [checkpoint(), answer(leader=4, state=1)],
        [
            (None, None, "The state epoch is 2 in the log, but 1 in the coordinator."),
            (None, None, "The leader epoch is 5 in the log, but 4 in the coordinator."),
        ],
    ),
    "a delta that the answer does not have": (
        [*LOG, delta((102, 105, ARCHIVED, 3), at=3), ANSWER],
        [
            (
                102,
                103,
                "In the log: archived, delivered 3 times; in the coordinator: acknowledged, delivered once.",
            ),
            (104, 104, "In the log: archived, delivered 3 times; in the coordinator: no state."),
            (
                105,
                105,
                "In the log: archived, delivered 3 times; in the coordinator: available, delivered 2 times.",
            ),
        ],
    ),
    "a missing state": (
        [checkpoint((100, 100, 7, 1)), answer()],
        [(100, 100, "In the log: 7, delivered once; in the coordinator: no state.")],
    ),
    "back again": (
        [checkpoint(), delta(at=2, start=110, leader=6), delta(at=3, start=105, leader=5), answer(start=105)],
        [
            (None, None, "The start decreases from 110 to 105 at position 3."),
            (None, None, "The leader epoch decreases from 6 to 5 at position 3."),
        ],
    ),
}


@each("case", CASES)
def test_differences_between_log_and_coordinator_are_found(case: str) -> None:
    entries, expected = CASES[case]
    checked = check(entries)
    assert [tuple(one) for one in checked.differences] == expected
    assert checked.records == sum(entry.kind not in ("answer", "unreadable") for entry in entries)


OUTCOMES: dict[str, tuple[list[StateLogEntry], list[tuple[int, int, str, int | None, int | None]]]] = {
    "nothing": ([checkpoint()], []),
    "before the checkpoint: ended, the time is unknown": (
        [checkpoint((100, 100, AVAILABLE, 1), (101, 102, ACCEPTED, 1), (103, 103, ARCHIVED, 5))],
        [(100, 100, "available", 1, None), (101, 102, "accepted", 1, None), (103, 103, "archived", 5, None)],
    ),
    "ended by a delta": (
        [
            checkpoint((100, 109, AVAILABLE, 1)),
            delta((101, 102, ACCEPTED, 2), (104, 104, 3, 1), at=7),
            answer((101, 102, ACCEPTED, 2)),  # which carries no time
        ],
        [
            (100, 100, "available", 1, None),
            (101, 102, "accepted", 2, 7000),
            (103, 103, "available", 1, None),
            (104, 104, "archiving", 1, None),
            (105, 109, "available", 1, None),
        ],
    ),
    "archived when its letter is written": (
        [checkpoint((100, 101, 3, 2)), delta((101, 101, ARCHIVED, 2), at=7)],
        [(100, 100, "archiving", 2, None), (101, 101, "archived", 2, 7000)],
    ),
    "passed: ended, the outcome is unknown": (
        [
            checkpoint((101, 101, AVAILABLE, 1), (103, 103, ACCEPTED, 1)),
            delta((104, 104, ACCEPTED, 2), at=5),
            delta(at=8, start=106),
            delta(at=9, start=107),
        ],
        [
            (100, 102, "passed", None, 8000),
            (103, 103, "accepted", 1, None),
            (104, 104, "accepted", 2, 5000),
            (105, 105, "passed", None, 8000),
            (106, 106, "passed", None, 9000),
        ],
    ),
    "a first start passes nothing": ([checkpoint(start=-1), delta(at=2, start=50)], []),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_outcome_of_each_offset_is_derived(case: str) -> None:
    entries, expected = OUTCOMES[case]
    assert [one[:5] for one in outcomes_of(entries)] == expected


def test_newest_wait_of_an_offset_counts() -> None:
    def released(at: int, count: int, not_before_ms: int) -> StateLogEntry:
        return delta(at=at)._replace(runs=(Run(100, 101, OffsetStatus(count, AVAILABLE, not_before_ms)),))

    log = [checkpoint(), released(2, 1, 9000), released(3, 1, 5000)]
    (outcome,) = outcomes_of(log)
    assert outcome == (100, 101, "available", 1, None, 5000)
    (redelivered,) = outcomes_of([*log, released(4, 2, 0)])
    assert redelivered.not_before_ms is None
    (accepted,) = outcomes_of([*log, delta((100, 101, ACCEPTED, 1), at=4)])
    assert (accepted.outcome, accepted.not_before_ms) == ("accepted", None)
    (difference,) = check([*log, answer((100, 101, AVAILABLE, 1))]).differences
    assert difference.text == (
        "In the log: available, delivered once, not before 5000 ms; "
        "in the coordinator: available, delivered once."
    )
