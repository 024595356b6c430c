"""How many records to ask for, and when to take that back."""

from __future__ import annotations

import pytest

from sharebroker.consumer.flow_control import Appetite


def test_nothing_is_asked_for_before_the_application_comes() -> None:
    appetite = Appetite(500, 1000)
    assert appetite.credit(0, 0) == 0
    appetite.come(0.0, poll=True)
    assert appetite.credit(0, 0) == 500
    appetite.go(0.0)
    assert appetite.credit(0, 500) == 0


def test_an_iteration_gets_what_its_pace_deserves() -> None:
    appetite = Appetite(500, 1000)
    appetite.come(0.0, poll=False)
    assert appetite.credit(0, 0) == 16
    assert appetite.credit(10, 4) == 2
    assert appetite.credit(16, 0) == 0
    appetite.go(0.0)
    assert appetite.credit(10, 0) == 6
    assert not appetite.keeps_nothing


# max_poll_records and prefetch_records, what is on the way when a poll returns, what is taken back.
LEFTOVERS = [((500, 1000), 499, 0), ((500, 0), 499, -499), ((500, 10), 499, -489), ((500, 0), -3, 0)]


@pytest.mark.parametrize(("settings", "on_the_way", "change"), LEFTOVERS)
def test_what_a_poll_left_out_there_beyond_the_prefetch_is_taken_back(
    settings: tuple[int, int], on_the_way: int, change: int
) -> None:
    appetite = Appetite(*settings)
    appetite.come(0.0, poll=True)
    assert appetite.credit(1, on_the_way) >= 0
    appetite.go(0.0)
    assert appetite.keeps_nothing is (settings[1] == 0)
    assert appetite.credit(400, on_the_way) == change


def test_who_stays_away_is_sent_nothing_more() -> None:
    appetite = Appetite(500, 1000)
    appetite.come(0.0, poll=True)
    assert not appetite.give_up_after(15.0, 100.0)  # it is here
    appetite.go(100.0)
    assert not appetite.give_up_after(15.0, 114.0)
    assert appetite.credit(0, 10) == 6
    assert appetite.give_up_after(15.0, 115.0)
    assert not appetite.give_up_after(15.0, 116.0)
    assert appetite.credit(5, 10) == -10
    assert appetite.credit(5, 0) == 0
    appetite.come(200.0, poll=True)
    assert appetite.credit(5, 0) == 495


def test_who_is_here_goes_on_after_a_lost_lock() -> None:
    appetite = Appetite(500, 1000)
    appetite.come(0.0, poll=True)
    appetite.give_up()
    assert appetite.credit(0, 0) == 500
    appetite.go(0.0)
    appetite.give_up()
    assert appetite.credit(0, 500) == -500
