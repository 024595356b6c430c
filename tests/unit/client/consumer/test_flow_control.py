"""Credit, and its withdrawal."""

from __future__ import annotations

import pytest

from sharebroker.consumer.flow_control import FlowControl, PrefetchWindow


def test_no_credit_before_first_poll() -> None:
    flow_control = FlowControl(500, 1000)
    assert flow_control.credit(0, 0) == 0
    flow_control.poll_started(0.0, poll=True)
    assert flow_control.credit(0, 0) == 500
    flow_control.poll_returned(0.0)
    assert flow_control.credit(0, 500) == 0


def test_iteration_gets_credit_for_prefetch_window() -> None:
    flow_control = FlowControl(500, 1000)
    flow_control.poll_started(0.0, poll=False)
    assert flow_control.credit(0, 0) == 16
    assert flow_control.credit(10, 4) == 2
    assert flow_control.credit(16, 0) == 1
    assert flow_control.credit(16, 1) == 0
    flow_control.poll_returned(0.0)
    assert flow_control.credit(10, 0) == 6
    assert not flow_control.discards_late_records


def test_waiting_iteration_gets_a_record_whatever_it_holds() -> None:
    flow_control = FlowControl(5, 5)
    flow_control.poll_started(0.0, poll=False)
    flow_control.prefetch_window.poll_returned(1, 0.0)
    flow_control.poll_returned(0.0)
    assert flow_control.credit(4, 0) == 6
    flow_control.poll_started(60.0, poll=False)
    assert flow_control.prefetch_window.window == 1, "the work on one record took a minute"
    assert [flow_control.credit(held, 0) for held in (0, 4, 9, 10)] == [1, 1, 1, 0]
    assert flow_control.credit(4, 1) == 0
    flow_control.poll_returned(60.0)
    assert flow_control.credit(4, 0) == 0


# max_poll_records and prefetch_records; outstanding credit when a poll returns; change of the credit.
LEFTOVERS = [((500, 1000), 499, 0), ((500, 0), 499, -499), ((500, 10), 499, -489), ((500, 0), -3, 0)]


@pytest.mark.parametrize(("settings", "outstanding", "change"), LEFTOVERS)
def test_unused_credit_beyond_prefetch_is_withdrawn(
    settings: tuple[int, int], outstanding: int, change: int
) -> None:
    flow_control = FlowControl(*settings)
    flow_control.poll_started(0.0, poll=True)
    assert flow_control.credit(1, outstanding) >= 0
    flow_control.poll_returned(0.0)
    assert flow_control.discards_late_records is (settings[1] == 0)
    assert flow_control.credit(400, outstanding) == change


def test_credit_is_withdrawn_without_polls() -> None:
    flow_control = FlowControl(500, 1000)
    flow_control.poll_started(0.0, poll=True)
    assert not flow_control.stop_prefetch_after(15.0, 100.0)  # a poll waits
    flow_control.poll_returned(100.0)
    assert not flow_control.stop_prefetch_after(15.0, 114.0)
    assert flow_control.credit(0, 10) == 6
    assert flow_control.stop_prefetch_after(15.0, 115.0)
    assert not flow_control.stop_prefetch_after(15.0, 116.0)
    assert flow_control.credit(5, 10) == -10
    assert flow_control.credit(5, 0) == 0
    flow_control.poll_started(200.0, poll=True)
    assert flow_control.credit(5, 0) == 495


def test_waiting_poll_keeps_credit_after_lost_lock() -> None:
    flow_control = FlowControl(500, 1000)
    flow_control.poll_started(0.0, poll=True)
    flow_control.stop_prefetch()
    assert flow_control.credit(0, 0) == 500
    flow_control.poll_returned(0.0)
    flow_control.stop_prefetch()
    assert flow_control.credit(0, 500) == -500


def test_window_starts_small_and_doubles() -> None:
    prefetch_window, windows = PrefetchWindow(1500), []
    for round_ in range(9):
        windows.append(prefetch_window.window)
        prefetch_window.poll_returned(prefetch_window.window, float(round_))
        prefetch_window.poll_started(float(round_))
    assert windows == [16, 32, 64, 128, 256, 512, 1024, 1500, 1500]


def test_slow_application_gets_one_second_of_work() -> None:
    prefetch_window = PrefetchWindow(1500)
    prefetch_window.poll_returned(16, 0.0)
    prefetch_window.poll_started(8.0)
    assert prefetch_window.window == 2
    prefetch_window.poll_returned(2, 8.0)
    prefetch_window.poll_started(38.0)
    assert prefetch_window.window == 1


def test_short_lock_timeout_limits_window() -> None:
    prefetch_window = PrefetchWindow(1500)
    prefetch_window.set_lock_timeout(1.0)
    prefetch_window.poll_returned(16, 0.0)
    prefetch_window.poll_started(1.0)
    assert prefetch_window.window == 4
    prefetch_window.set_lock_timeout(30.0)
    prefetch_window.poll_returned(4, 1.0)
    prefetch_window.poll_started(2.0)
    assert prefetch_window.window == 4


def test_empty_poll_does_not_change_window() -> None:
    prefetch_window = PrefetchWindow(1500)
    prefetch_window.poll_started(100.0)
    assert prefetch_window.window == 16


def test_limit_applies_to_initial_window() -> None:
    assert PrefetchWindow(4).window == 4
