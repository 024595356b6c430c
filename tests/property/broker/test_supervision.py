"""A supervisor under any sequence of events: every broker runs at most once, and a stop always ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.broker.core.supervision import (
    INVALID,
    MOST_FAILURES,
    STOP_SECONDS,
    BrokerAction,
    CommandEnd,
    Supervision,
)

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["serving", "exit", "time", "signal"]),
        st.integers(0, 4),
        st.sampled_from([0, 1, INVALID, -9]),
        st.floats(0.0, 30.0),
    ),
    max_size=60,
)


class Machine:
    """Brokers that do what a supervision demands; it raises AssertionError if that is impossible."""

    def __init__(self, count: int) -> None:
        self.supervision = Supervision(count)
        self.running = set[int]()
        self.reports = 0
        self.perform(self.supervision.begin())

    def perform(self, steps: list[tuple[BrokerAction, int]]) -> None:
        """Performs steps: a broker starts only after it ended, and a signal reaches a running broker."""
        for action, index in steps:
            if action is BrokerAction.REPORT:
                self.reports += 1
            elif action is BrokerAction.START:
                assert index not in self.running
                self.running.add(index)
            else:
                assert index in self.running

    def exit(self, index: int, code: int, now: float) -> None:
        """Ends a running broker."""
        self.running.remove(index)
        self.perform(self.supervision.on_exit(index, code, "reason", now))


@given(st.integers(1, 5), EVENTS)
def test_brokers_run_once_and_a_stop_ends(count: int, events: list[tuple[str, int, int, float]]) -> None:
    machine, now = Machine(count), 0.0
    for kind, index, code, later in events:
        now += later
        if machine.supervision.outcome is not None:
            break
        if kind == "signal":
            machine.perform(machine.supervision.on_signal(now))
        elif kind == "time":
            machine.perform(machine.supervision.on_time(now))
        elif index in machine.running and kind == "serving":
            machine.perform(machine.supervision.on_serving(index, now))
        elif index in machine.running:
            machine.exit(index, code, now)
        assert machine.reports <= 1
        assert machine.running or machine.supervision.deadline is not None or machine.supervision.outcome
    if machine.supervision.outcome is None:
        machine.perform(machine.supervision.on_signal(now))
        machine.perform(machine.supervision.on_time(now + STOP_SECONDS))
    for index in sorted(machine.running):
        assert machine.supervision.outcome is None
        machine.exit(index, -9, now)
    outcome = machine.supervision.outcome
    assert outcome is not None
    assert outcome.code in (0, 1, INVALID)


@given(st.integers(2, 5), st.lists(st.integers(0, 4), max_size=MOST_FAILURES - 1))
def test_a_single_signal_stops_every_broker_once_and_gracefully(count: int, exits: list[int]) -> None:
    machine = Machine(count)
    for index in range(count):
        machine.perform(machine.supervision.on_serving(index, 0.0))
    for index in exits:
        if index in machine.running:
            machine.exit(index, -9, 1.0)
    steps = machine.supervision.on_signal(2.0)
    stopped: list[int] = []
    while steps:
        machine.perform(steps)
        assert all(action is BrokerAction.TERMINATE for action, _ in steps)
        wave = [index for _, index in steps]
        stopped += wave
        steps = []
        for index in wave:
            machine.running.remove(index)
            steps += machine.supervision.on_exit(index, 0, "", 3.0)
    assert len(stopped) == len(set(stopped))
    assert not machine.running
    assert machine.supervision.outcome == CommandEnd(0)
