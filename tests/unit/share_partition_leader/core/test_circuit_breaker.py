from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.share_partition_leader.core.circuit_breaker import (
    SAMPLES,
    FailureWindow,
    Limit,
    Outcomes,
)


@pytest.mark.parametrize(
    ("accepted", "failed", "exceeded"),
    [(50, 50, False), (49, 51, True), (0, 99, False), (0, 100, True), (1000, 0, False), (99, 101, True)],
)
def test_the_limit_is_a_share_of_enough_records(accepted: int, failed: int, exceeded: bool) -> None:
    assert Limit(50, 60.0, 100).exceeded_by(Outcomes(accepted, failed)) is exceeded


def test_earlier_records_do_not_count() -> None:
    window = FailureWindow()
    assert window.add(0.0, Outcomes(100, 100), 60.0) == (0, 0)
    assert window.add(1.0, Outcomes(110, 105), 60.0) == (10, 5)


def test_old_failures_leave_the_window() -> None:
    window = FailureWindow()
    window.add(0.0, Outcomes(0, 0), 10.0)
    assert window.add(1.0, Outcomes(0, 100), 10.0) == (0, 100)
    assert window.add(10.9, Outcomes(5, 100), 10.0) == (5, 100)
    assert window.add(11.0, Outcomes(6, 100), 10.0) == (6, 0)


def test_replaced_counters_start_the_window_again() -> None:
    window = FailureWindow()
    window.add(0.0, Outcomes(50, 50), 60.0)
    assert window.add(1.0, Outcomes(60, 3), 60.0) == (0, 0)
    assert window.add(2.0, Outcomes(60, 4), 60.0) == (0, 1)


def test_a_restarted_window_has_no_failures() -> None:
    window = FailureWindow()
    window.add(0.0, Outcomes(0, 0), 60.0)
    window.restart(1.0, Outcomes(0, 100))
    assert window.add(2.0, Outcomes(7, 101), 60.0) == (7, 1)


@given(st.lists(st.tuples(st.floats(0.01, 30), st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_a_window_counts_its_own_time_and_is_bounded(steps: list[tuple[float, int, int]]) -> None:
    window, length, time, total = FailureWindow(), 60.0, 0.0, Outcomes(0, 0)
    history = [(time, total)]
    window.add(time, total, length)
    for wait, accepted, failed in steps:
        time, total = time + wait, Outcomes(total.accepted + accepted, total.failed + failed)
        history.append((time, total))
        counted = window.add(time, total, length)
        covered = total.since(
            max((each for at, each in history if at <= time - length), default=history[0][1])
        )
        earlier = time - length - length / SAMPLES
        most = total.since(max((each for at, each in history if at <= earlier), default=history[0][1]))
        assert covered.accepted <= counted.accepted <= most.accepted
        assert covered.failed <= counted.failed <= most.failed
        assert len(window._samples) <= 2 * SAMPLES + 3
