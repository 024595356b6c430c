"""How many records to ask for, and when to take that back."""

from __future__ import annotations

import pytest

from sharebroker.consumer.flow_control import FlowControl


def test_nothing_is_asked_for_before_the_application_comes() -> None:
    flow_control = FlowControl(500, 1000)
    assert flow_control.credit(0, 0) == 0
    flow_control.poll_started(0.0, poll=True)
    assert flow_control.credit(0, 0) == 500
    flow_control.poll_returned(0.0)
    assert flow_control.credit(0, 500) == 0


def test_an_iteration_gets_what_its_pace_deserves() -> None:
    flow_control = FlowControl(500, 1000)
    flow_control.poll_started(0.0, poll=False)
    assert flow_control.credit(0, 0) == 16
    assert flow_control.credit(10, 4) == 2
    assert flow_control.credit(16, 0) == 0
    flow_control.poll_returned(0.0)
    assert flow_control.credit(10, 0) == 6
    assert not flow_control.discards_late_records


# max_poll_records and prefetch_records, what is on the way when a poll returns, what is taken back.
LEFTOVERS = [((500, 1000), 499, 0), ((500, 0), 499, -499), ((500, 10), 499, -489), ((500, 0), -3, 0)]


@pytest.mark.parametrize(("settings", "outstanding", "change"), LEFTOVERS)
def test_what_a_poll_left_out_there_beyond_the_prefetch_is_taken_back(
    settings: tuple[int, int], outstanding: int, change: int
) -> None:
    flow_control = FlowControl(*settings)
    flow_control.poll_started(0.0, poll=True)
    assert flow_control.credit(1, outstanding) >= 0
    flow_control.poll_returned(0.0)
    assert flow_control.discards_late_records is (settings[1] == 0)
    assert flow_control.credit(400, outstanding) == change


def test_who_stays_away_is_sent_nothing_more() -> None:
    flow_control = FlowControl(500, 1000)
    flow_control.poll_started(0.0, poll=True)
    assert not flow_control.stop_prefetch_after(15.0, 100.0)  # it is here
    flow_control.poll_returned(100.0)
    assert not flow_control.stop_prefetch_after(15.0, 114.0)
    assert flow_control.credit(0, 10) == 6
    assert flow_control.stop_prefetch_after(15.0, 115.0)
    assert not flow_control.stop_prefetch_after(15.0, 116.0)
    assert flow_control.credit(5, 10) == -10
    assert flow_control.credit(5, 0) == 0
    flow_control.poll_started(200.0, poll=True)
    assert flow_control.credit(5, 0) == 495


def test_who_is_here_goes_on_after_a_lost_lock() -> None:
    flow_control = FlowControl(500, 1000)
    flow_control.poll_started(0.0, poll=True)
    flow_control.stop_prefetch()
    assert flow_control.credit(0, 0) == 500
    flow_control.poll_returned(0.0)
    flow_control.stop_prefetch()
    assert flow_control.credit(0, 500) == -500
