"""The state in memory follows checkpoints and deltas, and state batches combine."""

from __future__ import annotations

from itertools import product

import pytest

from sharebroker_protocol.model import FailureNote, StateBatch, StateNote
from sharebroker_server.share_coordinator.core.state import (
    ShareCheckpoint,
    ShareDelta,
    ShareState,
    combine,
    count_below,
)
from tests.testkit.tables import each
from tests.unit.share_coordinator.harness import KEY, batch
from tests.unit.share_coordinator.naive import NaiveRuns

CHECKPOINT = ShareCheckpoint(KEY, 2, 3, 4, 100, 5, 1000, 1000, (batch(100, 109),))


def state(checkpoint: ShareCheckpoint = CHECKPOINT) -> ShareState:
    return ShareState.of(checkpoint, 17, 8)


def test_checkpoint_is_the_complete_state() -> None:
    found = state()
    assert (found.checkpoint_epoch, found.state_epoch, found.leader_epoch) == (2, 3, 4)
    assert (found.start_offset, found.delivery_complete_count, found.runs) == (100, 5, [batch(100, 109)])
    assert (found.checkpoint_position, found.last_delta_index, found.delta_indices) == (17, 8, [])


@pytest.mark.parametrize(("written", "cold"), [(1000, False), (2000, True)])
def test_cold_checkpoint_repeats_an_older_one(written: int, cold: bool) -> None:
    assert state(CHECKPOINT._replace(write_timestamp_ms=written)).cold is cold


def test_delta_changes_only_its_fields() -> None:
    found = state()
    found.apply(ShareDelta(KEY, 9, 2, 6, 105, 7, (batch(110, 112),)))
    assert (found.leader_epoch, found.start_offset, found.delivery_complete_count) == (6, 105, 7)
    assert [(run.first, run.last) for run in found.runs] == [(105, 112)]


def test_minus_one_in_a_delta_means_unchanged() -> None:
    found = state()
    found.apply(ShareDelta(KEY, 9, 2, -1, -1, -1, ()))
    assert (found.leader_epoch, found.start_offset, found.runs) == (4, 100, [batch(100, 109)])
    assert found.delivery_complete_count == -1


def test_delta_indices_since_the_checkpoint_are_collected() -> None:
    found = state()
    for index in (9, 0):
        found.apply(ShareDelta(KEY, index, 2, -1, -1, 5, ()))
    assert (found.last_delta_index, found.delta_indices) == (0, [9, 0])


def test_states_are_equal_whatever_the_last_delta_index() -> None:
    assert ShareState.of(CHECKPOINT, 17, 8) == ShareState.of(CHECKPOINT, 17, -1)
    assert ShareState.of(CHECKPOINT, 17, 8) != ShareState.of(CHECKPOINT, 18, 8)


Batches = list[tuple[int, int, int, int]]

CASES: list[tuple[str, Batches, Batches, int, Batches]] = [
    ("nothing", [], [], -1, []),
    ("one is kept as it is", [], [(100, 110, 0, 1)], -1, [(100, 110, 0, 1)]),
    (
        "overlap: acknowledged beats available at the same count",
        [(100, 109, 0, 1)],
        [(105, 119, 2, 1)],
        -1,
        [(100, 104, 0, 1), (105, 119, 2, 1)],
    ),
    ("the higher delivery count is kept", [(100, 110, 2, 2)], [(100, 110, 0, 1)], -1, [(100, 110, 2, 2)]),
    ("higher count beats a final state", [(100, 110, 2, 1)], [(100, 110, 0, 2)], -1, [(100, 110, 0, 2)]),
    ("archived beats acknowledged", [(100, 110, 2, 1)], [(100, 110, 4, 1)], -1, [(100, 110, 4, 1)]),
    ("archiving beats acknowledged", [(100, 110, 2, 1)], [(100, 110, 3, 1)], -1, [(100, 110, 3, 1)]),
    ("acknowledged does not beat archiving", [(100, 110, 3, 1)], [(100, 110, 2, 1)], -1, [(100, 110, 3, 1)]),
    ("archived ends archiving", [(100, 110, 3, 1)], [(100, 110, 4, 1)], -1, [(100, 110, 4, 1)]),
    ("archived beats archiving", [(100, 110, 4, 1)], [(100, 110, 3, 1)], -1, [(100, 110, 4, 1)]),
    ("contiguous and the same become one", [(100, 109, 0, 1)], [(110, 119, 0, 1)], -1, [(100, 119, 0, 1)]),
    (
        "adjacent batches with different counts are not merged",
        [(100, 109, 0, 1)],
        [(110, 119, 0, 2)],
        -1,
        [(100, 109, 0, 1), (110, 119, 0, 2)],
    ),
    (
        "adjacent batches in different states are not merged",
        [(100, 109, 0, 1)],
        [(110, 119, 2, 1)],
        -1,
        [(100, 109, 0, 1), (110, 119, 2, 1)],
    ),
    (
        "a gap is kept",
        [(100, 109, 0, 1)],
        [(111, 119, 0, 1)],
        -1,
        [(100, 109, 0, 1), (111, 119, 0, 1)],
    ),
    ("a gap is filled", [(1, 3, 0, 1), (5, 7, 0, 1)], [(4, 4, 0, 1)], -1, [(1, 7, 0, 1)]),
    (
        "a batch is split",
        [(100, 119, 0, 1)],
        [(105, 109, 2, 2)],
        -1,
        [(100, 104, 0, 1), (105, 109, 2, 2), (110, 119, 0, 1)],
    ),
    ("swallowed by one of the same value", [(105, 109, 0, 1)], [(100, 119, 0, 1)], -1, [(100, 119, 0, 1)]),
    (
        "same first, longer and stronger: covers",
        [(100, 104, 0, 1)],
        [(100, 119, 0, 2)],
        -1,
        [(100, 119, 0, 2)],
    ),
    (
        "same first offset, longer, lower count: continues after it",
        [(100, 104, 2, 2)],
        [(100, 119, 0, 1)],
        -1,
        [(100, 104, 2, 2), (105, 119, 0, 1)],
    ),
    (
        "same last",
        [(110, 119, 0, 2)],
        [(100, 119, 2, 1)],
        -1,
        [(100, 109, 2, 1), (110, 119, 0, 2)],
    ),
    (
        "spans several, with gaps between",
        [(100, 104, 2, 1), (108, 110, 0, 3), (115, 119, 0, 1)],
        [(102, 117, 0, 2)],
        -1,
        [(100, 101, 2, 1), (102, 107, 0, 2), (108, 110, 0, 3), (111, 117, 0, 2), (118, 119, 0, 1)],
    ),
    ("before all others", [(100, 109, 0, 1)], [(0, 4, 0, 1)], -1, [(0, 4, 0, 1), (100, 109, 0, 1)]),
    ("added batches overlap each other", [], [(5, 9, 0, 1), (0, 6, 2, 1), (3, 3, 0, 5)], -1,
     [(0, 2, 2, 1), (3, 3, 0, 5), (4, 6, 2, 1), (7, 9, 0, 1)]),
    ("added out of order", [], [(20, 29, 0, 1), (0, 9, 0, 1), (10, 19, 0, 1)], -1, [(0, 29, 0, 1)]),
    ("added in order and touching", [], [(0, 9, 0, 1), (10, 19, 0, 1), (20, 29, 2, 1)], -1,
     [(0, 19, 0, 1), (20, 29, 2, 1)]),
    ("the same twice", [(100, 109, 2, 1)], [(100, 109, 2, 1)], -1, [(100, 109, 2, 1)]),
    ("below the start offset: dropped", [(100, 109, 0, 1)], [(110, 119, 2, 1)], 110, [(110, 119, 2, 1)]),
    ("straddling the start offset: clipped", [(100, 109, 0, 1)], [], 105, [(105, 109, 0, 1)]),
    ("start offset at the first", [(100, 109, 0, 1)], [], 100, [(100, 109, 0, 1)]),
    ("start offset at the last", [(100, 109, 0, 1)], [], 109, [(109, 109, 0, 1)]),
    ("start offset after all batches", [(100, 109, 0, 1)], [(110, 119, 2, 1)], 120, []),
    ("new ones below the start offset", [], [(90, 94, 2, 1), (98, 102, 2, 1)], 100, [(100, 102, 2, 1)]),
    ("start offset in a gap", [(1, 3, 0, 1), (7, 9, 0, 1)], [], 5, [(7, 9, 0, 1)]),
    ("no start offset: nothing is pruned", [(0, 3, 0, 1)], [(4, 5, 0, 1)], -1, [(0, 5, 0, 1)]),
]  # fmt: skip


def values(batches: Batches) -> list[StateBatch]:
    return [StateBatch(*one) for one in batches]


@pytest.mark.parametrize(
    ("runs", "added", "start", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_combined_batches_follow_kafkas_rules(
    runs: Batches, added: Batches, start: int, expected: Batches
) -> None:
    assert combine(values(runs), values(added), start) == values(expected)


def test_combine_does_not_change_its_arguments() -> None:
    runs, added = values([(0, 9, 0, 1)]), values([(5, 20, 2, 2)])
    combine(runs, added, 3)
    assert (runs, added) == (values([(0, 9, 0, 1)]), values([(5, 20, 2, 2)]))


RANGES = [(2, 5), (4, 4)]
OTHERS = [(first, last) for first in range(8) for last in range(first, 8)]
VALUES = [((0, 1), (0, 1)), ((0, 1), (2, 1)), ((2, 1), (0, 1)), ((2, 1), (0, 2)), ((4, 2), (2, 2))]


@each("old", RANGES)
@each("new", OTHERS)
@each("old_value, new_value", VALUES)
def test_two_batches_combine_in_every_relative_position(
    old: tuple[int, int], new: tuple[int, int], old_value: tuple[int, int], new_value: tuple[int, int]
) -> None:
    runs, added = [StateBatch(*old, *old_value)], [StateBatch(*new, *new_value)]
    for start in range(-1, 9):
        naive = NaiveRuns()
        naive.add(runs + added, start)
        assert combine(runs, added, start) == naive.runs()


FAILED = StateNote(failure=FailureNote(1, 5, "m1", "bad"))


@pytest.mark.parametrize(
    ("older", "newer", "kept"),
    [
        pytest.param((0, 1, StateNote(9)), (0, 1, StateNote(5)), StateNote(5), id="an earlier time"),
        pytest.param((0, 1, StateNote(5)), (0, 1, StateNote(9)), StateNote(9), id="a later time"),
        pytest.param((0, 1, StateNote(9)), (0, 1, None), None, id="no time any more"),
        pytest.param((0, 1, StateNote(9, "@m", 5)), (0, 1, None), None, id="no lock any more"),
        pytest.param((0, 1, StateNote(9, "@m", 5)), (0, 2, None), None, id="a release ends the lock"),
        pytest.param((0, 1, StateNote(9)), (0, 1, StateNote(7, "@m", 5)), StateNote(7, "@m", 5), id="a lock"),
        pytest.param((0, 2, StateNote(9)), (0, 1, StateNote(5)), StateNote(9), id="a lower count loses"),
        pytest.param((0, 1, StateNote(9)), (0, 2, None), None, id="a higher count wins"),
        pytest.param((0, 1, StateNote(9)), (4, 1, None), None, id="a higher state wins"),
        pytest.param((0, 1, None), (3, 1, FAILED), FAILED, id="a failure"),
        pytest.param((3, 1, FAILED), (4, 1, None), None, id="the end of archiving"),
    ],
)
def test_note_of_the_newer_batch_wins_at_equal_state_and_count(
    older: tuple[int, int, StateNote | None],
    newer: tuple[int, int, StateNote | None],
    kept: StateNote | None,
) -> None:
    batches = [StateBatch(0, 9, *older), StateBatch(3, 5, *newer)]
    for combined in (combine([], batches, -1), combine(batches[:1], batches[1:], -1)):
        assert [run.note for run in combined if run.first <= 4 <= run.last] == [kept]
        assert combined[0].note == older[2]


def test_neighbours_with_different_notes_stay_apart() -> None:
    apart = [StateBatch(0, 4, 0, 1, StateNote(5)), StateBatch(5, 9, 0, 1, StateNote(6))]
    assert combine([], apart, -1) == apart
    assert combine([], [*apart, StateBatch(5, 9, 0, 1, StateNote(5))], -1) == [
        StateBatch(0, 9, 0, 1, StateNote(5))
    ]


def test_three_neighbours_combine_in_every_order() -> None:
    pieces = [StateBatch(0, 2, 0, 1), StateBatch(2, 5, 2, 1), StateBatch(4, 8, 0, 2)]
    naive = NaiveRuns()
    naive.add(pieces, -1)
    for order in product(pieces, repeat=3):
        if len(set(order)) == 3:
            assert combine([], order, -1) == naive.runs()


@pytest.mark.parametrize(
    ("start", "below"), [(-1, 0), (0, 0), (1, 0), (3, 0), (4, 1), (5, 1), (9, 1), (10, 2), (99, 2)]
)
def test_finished_records_below_the_start_offset_are_counted(start: int, below: int) -> None:
    assert count_below(values([(1, 3, 0, 1), (5, 9, 0, 1)]), start) == below
