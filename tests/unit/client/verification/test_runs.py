"""Replay, compared with a naive one that works offset by offset."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sharebroker.verification.runs import UNTOUCHED, Run, Span, at, differences, replay

OFFSETS = st.integers(0, 12)
RUNS = st.lists(
    st.builds(
        lambda first, size, state, deliveries: Run(first, first + size - 1, state, deliveries),
        OFFSETS,
        st.integers(0, 5),
        st.sampled_from((0, 2, 4)),
        st.integers(0, 3),
    ),
    max_size=8,
)


def naive(runs: list[Run], start: int) -> dict[int, tuple[int, int]]:
    """The greatest (deliveries, state) of each offset."""
    known: dict[int, tuple[int, int]] = {}
    for run in runs:
        for offset in range(max(run.first, start), run.last + 1):
            known[offset] = max(known.get(offset, (0, 0)), (run.deliveries, run.state))
    return {offset: (state, deliveries) for offset, (deliveries, state) in known.items()}


@given(RUNS, st.integers(-1, 12))
def test_replay_is_the_greatest_of_each_offset(written: list[Run], start: int) -> None:
    known = replay(written, start)
    found = {offset: run[2:] for run in known for offset in range(run.first, run.last + 1)}
    assert found == naive(written, start)
    assert replay(known, start) == known
    for before, after in pairwise(known):
        assert before.last < after.first
        assert before.last + 1 < after.first or before[2:] != after[2:]


@given(RUNS, RUNS)
def test_differences_are_of_single_offsets(one: list[Run], other: list[Run]) -> None:
    left, right = replay(one, 0), replay(other, 0)
    spans = list(differences(left, right))
    different = {offset for span in spans for offset in range(span.first, span.last + 1)}
    mine, theirs = naive(one, 0), naive(other, 0)
    assert different == {
        offset for offset in range(30) if mine.get(offset, UNTOUCHED) != theirs.get(offset, UNTOUCHED)
    }


def test_runs_as_long_as_offsets_go_cost_nothing() -> None:
    most = Run(0, 2**62, 2, 1)
    assert replay([most, Run(5, 5, 4, 2)], 0)[1] == Run(5, 5, 4, 2)
    assert at([most], 2**61) == (2, 1)
    assert list(differences([most], [])) == [Span(0, 2**62)]
