"""When a member's silence is stored, and when it is fenced: after any load, by any clock."""

from __future__ import annotations

from math import inf

import pytest

from sharebroker_server.group_coordinator.core.deadlines import MemberSession
from sharebroker_server.group_coordinator.core.share_groups.sessions import (
    Observation,
    Sessions,
    Silence,
    Timing,
)
from tests.testkit.tables import each

KAFKAS = Timing(timeout=45.0, interval=5.0)
"""Kafka's defaults; the chance is 15 s."""

SEEN = Observation.after_heartbeat(100.0)
LOADED = Observation.after_load(None, 100.0)


def of(since: float, served: float) -> Silence:
    return Silence(round(since * 1000), round(served * 1000))


@pytest.mark.parametrize(("timeout", "interval", "chance"), [(45, 5, 15), (45, 15, 45), (10, 8, 10)])
def test_chance_is_three_intervals_at_most_the_timeout(
    timeout: float, interval: float, chance: float
) -> None:
    assert Timing(timeout, interval).chance == chance


@pytest.mark.parametrize(
    ("observation", "fenced_at"),
    [
        (SEEN, 145.0),
        (LOADED, 145.0),
        (Observation.after_load(of(80, 1), 100.0), 125.0),  # the session timeout comes last
        (Observation.after_load(of(40, 1), 100.0), 114.0),  # the chance does
        (Observation.after_load(of(40, 15), 100.0), 100.0),  # both have passed
        (Observation.after_load(of(500, 1), 100.0), 145.0),  # the clock of the writer was ahead
    ],
)
def test_member_is_fenced_once_timeout_and_chance_have_passed(
    observation: Observation, fenced_at: float
) -> None:
    assert observation.fenced_at(KAFKAS) == pytest.approx(fenced_at)


@each(
    "observation, stored, stored_at",
    [
        (SEEN, None, 115.0),
        (SEEN, of(100, 15), inf),
        (LOADED, None, 101.0),
        (LOADED, of(100, 1), 102.0),
        (LOADED, of(100, 2.5), 105.0),
        (LOADED, of(100, 8), 115.0),  # not later than the chance is complete
        (LOADED, of(100, 15), inf),
        (Observation.after_load(of(90, 3), 100.0), of(90, 3), 101.0),
        (Observation.after_load(of(90, 3), 100.0), of(90, 4), 102.0),
        (Observation.after_load(of(90, 14.5), 100.0), of(90, 14.5), 100.5),
        (Observation.after_load(of(90, 15), 100.0), of(90, 15), inf),
        (Observation.after_load(of(500, 15), 100.0), of(500, 15), 101.0),  # a time in the future is replaced
    ],
)
def test_silence_is_stored_when_it_has_doubled(
    observation: Observation, stored: Silence | None, stored_at: float
) -> None:
    assert observation.stored_at(stored, KAFKAS) == pytest.approx(stored_at)


def test_silence_includes_time_served_by_earlier_loads() -> None:
    observation = Observation.after_load(of(90, 3), 100.0)
    assert observation.silence(101.5, KAFKAS) == of(90, 4.5)
    assert observation.silence(200.0, KAFKAS) == of(90, 15)


def test_shortest_interval_leaves_time_between_two_records() -> None:
    observation = Observation.after_load(None, 100.0)
    assert observation.stored_at(None, Timing(1.0, 0.001)) == pytest.approx(100.01)
    assert observation.stored_at(None, Timing(1.0, 0.02)) == pytest.approx(100.01)


@pytest.mark.parametrize("timing", [KAFKAS, Timing(10.0, 5.0), Timing(1.0, 0.9)])
def test_first_check_after_a_heartbeat_is_at_the_end_of_the_chance(timing: Timing) -> None:
    assert SEEN.next_check(None, timing) == 100.0 + timing.chance


def test_next_check_is_the_earlier_of_both() -> None:
    assert SEEN.next_check(None, KAFKAS) == 115.0
    assert SEEN.next_check(of(100, 15), KAFKAS) == 145.0
    assert SEEN.next_check(None, Timing(10.0, 5.0)) == 110.0


def test_member_with_an_observation_is_not_new() -> None:
    sessions, session = Sessions(), MemberSession("g", "m")
    sessions.track(session)
    assert (sessions.new(), sessions.next_check()) == ([session], 0.0)
    sessions.set(session, SEEN, 5.0)
    sessions.track(session)
    assert (sessions.new(), sessions.next_check(), sessions.observation(session)) == ([], 5.0, SEEN)
    assert sessions.due(5.0, 10) == [session]


@pytest.mark.parametrize("observed", [False, True])
def test_dropped_member_is_not_checked(observed: bool) -> None:
    sessions, session = Sessions(), MemberSession("g", "m")
    sessions.track(session)
    if observed:
        sessions.set(session, SEEN, 5.0)
    sessions.drop(session)
    assert (sessions.new(), sessions.due(9.0, 10), sessions.next_check()) == ([], [], None)
