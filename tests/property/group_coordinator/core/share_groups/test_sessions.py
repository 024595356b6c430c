"""However often coordinators restart: live members are never fenced, dead ones in time.

A run is a sequence of loads of a shard, each with the downtime before it, the time it serves, and the error
of its clock. A live member sends a heartbeat after at most one interval of served time; a dead one sent its
last heartbeat in the first load.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.group_coordinator.harness import FakeView, Harness

TIMEOUT, INTERVAL = 45.0, 5.0
CHANCE = 3 * INTERVAL
SHORTEST = INTERVAL / 5
"""A load that serves less stores nothing."""
CLOCK_ERROR = 20.0
ROUNDING = 0.01
"""Times are stored in milliseconds."""


class Load(NamedTuple):
    down: float
    serves: float
    clock: float = 0.0


def seconds(most: int) -> st.SearchStrategy[float]:
    return st.integers(0, 10 * most).map(lambda tenths: tenths / 10)


def loads(clock: st.SearchStrategy[float]) -> st.SearchStrategy[list[Load]]:
    some = st.builds(Load, seconds(120), seconds(60), clock)
    brief = st.builds(Load, seconds(3), seconds(6), clock)
    return st.lists(some | brief, min_size=1, max_size=25) | st.lists(brief, min_size=15, max_size=40)


exact = st.just(0.0)
wrong = st.sampled_from([-CLOCK_ERROR, 0.0, CLOCK_ERROR])


class Run:
    """A shard over several loads. `time` is the true time; the clock of a load differs from it by `error`."""

    def __init__(self) -> None:
        cluster = FakeView()
        cluster.create("a", 2)
        self.shard = Harness(cluster)
        self.time, self.error = self.shard.now, 0.0

    def restart(self, load: Load) -> None:
        self.time += load.down
        self.error = load.clock
        self.shard.now = self.time + self.error
        self.shard.reload()
        self.shard.pass_time(0)

    def serve(self, duration: float) -> None:
        """Serves without a heartbeat; each deadline is handled when it is due."""
        end = self.time + self.error + duration
        while self.shard.now < end:
            deadline = self.shard.machine.next_deadline()
            self.shard.now = end if deadline is None else min(max(deadline, self.shard.now), end)
            self.shard.pass_time(0)
        self.time += duration


def heartbeats(gaps: list[float], load: Load, silent: float) -> Iterator[float]:
    """Yields the times between heartbeats in a load, for a member that was silent for `silent` seconds."""
    left, wait = load.serves, cycle(gaps)
    while (pause := max(min(next(wait), INTERVAL - silent), 0.0)) <= left:
        yield pause
        left, silent = left - pause, 0.0


@pytest.mark.slow
@given(
    loads(exact) | loads(wrong) | loads(st.integers(-900, 900).map(float)),
    st.lists(seconds(5).filter(bool), min_size=1, max_size=5),
)
def test_member_with_timely_heartbeats_is_never_fenced(plan: list[Load], gaps: list[float]) -> None:
    run, silent = Run(), 0.0
    epoch = run.shard.join("live", "a").member_epoch
    run.shard.join("dead", "a")
    for load in plan:
        run.restart(load)
        left = load.serves
        for pause in heartbeats(gaps, load, silent):
            run.serve(pause)
            epoch = run.shard.beat("live", epoch).member_epoch
            left, silent = left - pause, 0.0
        run.serve(left)
        silent += left
        assert ("g", "live") not in run.shard.fenced


@given(seconds(60), loads(exact) | loads(wrong))
def test_dead_member_is_fenced_in_time(first: float, plan: list[Load]) -> None:
    run = Run()
    run.shard.join("dead", "a")
    died = run.time
    run.serve(first)
    # What must be stored at the least: when the silence began, and how much of it was served.
    since = died if first >= CHANCE else None
    counted = CHANCE if first >= CHANCE else 0.0
    for load in plan:
        run.restart(load)
        loaded = run.time
        run.serve(load.serves)
        since = loaded if since is None and load.serves >= SHORTEST else since
        error = 2 * CLOCK_ERROR if any(some.clock for some in plan) else 0.0
        passed = since is not None and run.time - since >= TIMEOUT + error + ROUNDING
        if passed and counted + load.serves >= CHANCE + ROUNDING:
            assert run.shard.fenced == [("g", "dead")]
        if run.shard.fenced:
            assert run.time - died >= TIMEOUT - error - ROUNDING
        counted += load.serves / 2 if load.serves >= SHORTEST else 0.0


restarts = st.builds(Load, seconds(2), st.integers(30, 150).map(lambda tenths: tenths / 10), exact)


@given(st.lists(restarts, min_size=60, max_size=60))
def test_dead_member_is_fenced_by_the_session_timeout_under_restarts(plan: list[Load]) -> None:
    """Restarts every 3 to 17 s: the slack is one load, and what was not stored before its end."""
    run = Run()
    run.shard.join("dead", "a")
    died = run.time
    slowest = max(load.down + load.serves for load in plan)
    for load in plan:
        run.restart(load)
        run.serve(load.serves)
        if run.shard.fenced:
            break
    assert run.time - died <= TIMEOUT + 2 * slowest
