"""When a supervisor starts, restarts and stops the brokers of one command."""

from __future__ import annotations

import pytest

from sharebroker_server.broker.core.supervision import (
    INVALID,
    MOST_FAILURES,
    NO_BROKER,
    SHORTEST_PAUSE,
    STABLE_SECONDS,
    STOP_SECONDS,
    BrokerAction,
    CommandEnd,
    Supervision,
    pause_after,
)

REPORT = (BrokerAction.REPORT, NO_BROKER)


def serving(count: int) -> Supervision:
    """Returns a supervision whose brokers serve since 0."""
    supervision = Supervision(count)
    supervision.begin()
    steps = [step for index in range(count) for step in supervision.on_serving(index, 0.0)]
    assert steps == [REPORT]
    return supervision


def terminated(steps: list[tuple[BrokerAction, int]]) -> list[int]:
    """Returns the brokers of steps that all terminate."""
    assert all(action is BrokerAction.TERMINATE for action, _ in steps)
    return [index for _, index in steps]


def test_all_brokers_start_at_once() -> None:
    supervision = Supervision(3)
    assert supervision.begin() == [(BrokerAction.START, index) for index in range(3)]
    assert supervision.deadline is None
    assert supervision.absent == [0, 1, 2]


def test_serving_is_reported_once_and_only_when_all_brokers_serve() -> None:
    supervision = Supervision(2)
    supervision.begin()
    assert supervision.on_serving(1, 0.0) == []
    assert supervision.on_serving(0, 1.0) == [REPORT]
    supervision.on_exit(0, 1, "", 2.0)
    assert supervision.on_time(3.0) == [(BrokerAction.START, 0)]
    assert supervision.on_serving(0, 4.0) == []
    assert supervision.absent == []


def test_a_broker_that_exits_starts_again_after_a_pause() -> None:
    supervision = serving(2)
    assert supervision.on_exit(1, -9, "", 100.0) == []
    due = supervision.deadline
    assert due is not None
    assert due == pytest.approx(100.0 + SHORTEST_PAUSE)
    assert supervision.on_time(100.0) == []
    assert supervision.on_time(due) == [(BrokerAction.START, 1)]
    assert (supervision.deadline, supervision.restarts, supervision.absent) == (None, [0, 1], [1])


@pytest.mark.parametrize(("failures", "pause"), [(1, 0.1), (2, 0.2), (3, 0.4), (MOST_FAILURES - 1, 6.4)])
def test_pauses_double_until_the_command_ends(failures: int, pause: float) -> None:
    assert pause_after(failures) == pytest.approx(pause)


def fail(supervision: Supervision, times: int, served: float | None = None) -> list[tuple[BrokerAction, int]]:
    """Lets broker 0 exit and start again; `served`: the seconds that it serves each time."""
    now, steps = 1000.0, list[tuple[BrokerAction, int]]()
    for _ in range(times):
        if served is not None:
            supervision.on_serving(0, now)
            now += served
        steps = supervision.on_exit(0, 1, "exit code 1", now)
        if not steps:
            now = supervision.deadline or now
            supervision.on_time(now)
    return steps


@pytest.mark.parametrize("served", [None, 0.0, STABLE_SECONDS - 0.1])
def test_too_many_failures_in_succession_stop_all_brokers(served: float | None) -> None:
    supervision = serving(3)
    supervision.on_exit(0, 1, "", 0.0)
    supervision.on_time(1.0)
    assert fail(supervision, MOST_FAILURES - 2, served) == []
    steps = fail(supervision, 1, served)
    assert terminated(steps) == [2]
    assert terminated(supervision.on_exit(2, 0, "", 1.0)) == [1]
    assert supervision.on_exit(1, 0, "", 1.0) == []
    assert supervision.outcome == CommandEnd(1, "Broker 0 failed 8 times: exit code 1")


def test_a_broker_that_served_long_begins_again_to_count_failures() -> None:
    supervision = serving(2)
    assert fail(supervision, 5 * MOST_FAILURES, STABLE_SECONDS) == []
    assert supervision.outcome is None


def test_an_invalid_configuration_ends_the_start() -> None:
    supervision = Supervision(2)
    supervision.begin()
    supervision.on_serving(1, 0.0)
    assert supervision.on_exit(0, INVALID, "The port is in use.", 1.0) == [(BrokerAction.TERMINATE, 1)]
    assert supervision.outcome is None
    assert supervision.on_exit(1, 0, "", 2.0) == []
    assert supervision.outcome == CommandEnd(INVALID, "The port is in use.")


def test_the_first_of_several_invalid_brokers_is_the_reason() -> None:
    supervision = Supervision(2)
    supervision.begin()
    assert supervision.on_exit(1, INVALID, "first", 0.0) == [(BrokerAction.TERMINATE, 0)]
    assert supervision.on_exit(0, INVALID, "second", 0.0) == []
    assert supervision.outcome == CommandEnd(INVALID, "first")


def test_after_serving_a_broker_that_cannot_start_is_retried() -> None:
    """Redis may be unavailable for a moment, which a starting broker reports as invalid."""
    supervision = serving(2)
    assert supervision.on_exit(0, INVALID, "no Redis", 1.0) == []
    assert supervision.on_time(2.0) == [(BrokerAction.START, 0)]


@pytest.mark.parametrize(
    ("count", "waves"),
    [
        (1, [[0]]),
        (2, [[1], [0]]),
        (3, [[1, 2], [0]]),
        (5, [[2, 3, 4], [1], [0]]),
        (8, [[4, 5, 6, 7], [2, 3], [1], [0]]),
    ],
)
def test_brokers_stop_in_waves(count: int, waves: list[list[int]]) -> None:
    supervision = serving(count)
    steps = supervision.on_signal(5.0)
    for wave in waves:
        assert supervision.outcome is None
        assert terminated(steps) == wave
        *first, last = wave
        assert not any(supervision.on_exit(index, 0, "", 6.0) for index in first)
        steps = supervision.on_exit(last, 0, "", 6.0)
    assert (steps, supervision.outcome) == ([], CommandEnd(0))


def test_brokers_that_start_or_pause_do_not_delay_the_stop() -> None:
    supervision = serving(4)
    supervision.on_exit(0, 1, "", 1.0)
    supervision.on_exit(1, 1, "", 1.0)
    supervision.on_time(1.0 + SHORTEST_PAUSE)
    supervision.on_exit(0, 1, "", 1.2)
    assert terminated(supervision.on_signal(1.3)) == [1, 3]
    assert supervision.on_serving(1, 1.4) == []
    assert supervision.on_exit(1, 0, "", 1.5) == []
    assert terminated(supervision.on_exit(3, 0, "", 1.6)) == [2]
    supervision.on_exit(2, 0, "", 1.7)
    assert supervision.outcome == CommandEnd(0)


def test_a_stop_while_every_broker_pauses_ends_at_once() -> None:
    supervision = serving(1)
    supervision.on_exit(0, 1, "", 1.0)
    assert supervision.on_signal(1.0) == []
    assert supervision.outcome == CommandEnd(0)


@pytest.mark.parametrize("by_time", [True, False])
def test_brokers_are_killed_at_the_deadline_or_at_a_second_signal(by_time: bool) -> None:
    supervision = serving(3)
    assert terminated(supervision.on_signal(10.0)) == [1, 2]
    assert supervision.deadline == 10.0 + STOP_SECONDS
    assert supervision.on_time(10.0 + STOP_SECONDS - 0.1) == []
    supervision.on_exit(2, 0, "", 11.0)
    steps = supervision.on_time(10.0 + STOP_SECONDS) if by_time else supervision.on_signal(12.0)
    assert steps == [(BrokerAction.KILL, 0), (BrokerAction.KILL, 1)]
    assert supervision.deadline is None
    assert supervision.on_exit(0, -9, "", 12.0) == supervision.on_exit(1, -9, "", 12.0) == []
    assert supervision.outcome == CommandEnd(0)
