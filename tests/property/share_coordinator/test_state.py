"""Combining against one value per offset."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sharebroker_protocol.model import StateBatch, StateNote
from sharebroker_server.share_coordinator.core.state import combine, combine_into
from tests.unit.share_coordinator.naive import NaiveRuns

batches = st.builds(
    lambda first, length, state, count, note: StateBatch(
        first, first + length, state, count, note if state == 0 else None
    ),
    st.integers(0, 60),
    st.integers(0, 25),
    st.sampled_from([0, 2, 3, 4]),
    st.integers(0, 4),
    st.none() | st.integers(1, 3).map(StateNote) | st.just(StateNote(2, "@m", 5)),
)
waits = st.builds(
    lambda first, length, count, note: StateBatch(first, first + length, 0, count, note),
    st.integers(0, 12),
    st.integers(0, 6),
    st.integers(1, 2),
    st.none() | st.integers(1, 3).map(StateNote),
)
"""Available batches that overlap and differ in little but their notes."""
starts = st.integers(-1, 90)


@settings(deadline=None)
@given(st.lists(batches, max_size=12), starts, st.lists(batches, max_size=12), starts)
def test_combine_equals_offset_by_offset(
    first: list[StateBatch], start: int, second: list[StateBatch], later_start: int
) -> None:
    naive = NaiveRuns()
    naive.add(first, start)
    runs = combine([], first, start)
    assert runs == naive.runs()
    naive.add(second, later_start)
    assert combine(runs, second, later_start) == naive.runs()
    combine_into(runs, second, later_start)
    assert runs == naive.runs()


@settings(deadline=None)
@given(st.lists(waits, max_size=8), st.lists(waits, max_size=8))
def test_the_newest_of_several_notes_counts(first: list[StateBatch], second: list[StateBatch]) -> None:
    naive = NaiveRuns()
    naive.add([*first, *second], -1)
    assert combine(combine([], first, -1), second, -1) == naive.runs()


@settings(deadline=None)
@given(st.permutations(range(8)), st.lists(batches, min_size=8, max_size=8))
def test_order_does_not_matter_to_states_and_counts(order: list[int], added: list[StateBatch]) -> None:
    plain = [batch._replace(note=None) for batch in added]
    assert combine([], [plain[i] for i in order], -1) == combine([], plain, -1)


@settings(deadline=None)
@given(st.lists(batches, max_size=20))
def test_runs_are_disjoint_ascending_and_maximal(added: list[StateBatch]) -> None:
    runs = combine([], added, -1)
    for left, right in pairwise(runs):
        assert left.last < right.first
        assert left.last + 1 < right.first or left[2:] != right[2:]
