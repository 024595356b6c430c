"""Runs after any changes: equal neighbours are merged, and no offset changes its state."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import given

from sharebroker_protocol.model import RecordState
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.core.runs import Batch, Run

STATES = st.sampled_from([RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ACKNOWLEDGED])
RUNS = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 1]), st.integers(1, 3), STATES, st.sampled_from([1, 1, 2])),
    max_size=30,
)
BATCH = Batch(0, 150)


def _states(runs: list[Run]) -> list[tuple[int, RecordState, int]]:
    return [(x, run.state, run.delivery_count) for run in runs for x in range(run.first, run.last + 1)]


@given(RUNS, st.data())
def test_changed_runs_are_merged_in_any_order(
    layout: list[tuple[int, int, RecordState, int]], data: st.DataObject
) -> None:
    runs, first = [], 0
    for gap, size, state, count in layout:
        first += gap
        runs.append(Run(first, first + size - 1, state, count, BATCH))
        first += size
    in_flight = InFlight(0)
    in_flight.fill(runs)
    states, original = _states(runs), list(runs)
    chosen = [run for run in original if data.draw(st.booleans())]
    bounds = [(run.first, run.last) for run in chosen]
    dropped = data.draw(st.integers(0, 3))
    in_flight.coalesce(
        [Run(900, 901, RecordState.ACKNOWLEDGED, 1, None)] * dropped + data.draw(st.permutations(chosen))
    )
    assert _states(in_flight.runs) == states
    assert in_flight.firsts == [run.first for run in in_flight.runs]
    changed = {offset for bound in bounds for offset in bound}
    for before, after in pairwise(in_flight.runs):
        assert changed.isdisjoint((before.last, after.first)) or not before.continues_as(after)


def test_a_window_without_runs_has_nothing_to_merge() -> None:
    in_flight = InFlight(7)
    in_flight.coalesce([Run(0, 4, RecordState.ACKNOWLEDGED, 1, None)])
    assert (in_flight.runs, in_flight.start) == ([], 7)
