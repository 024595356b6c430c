"""How far ahead records are taken, by how fast they are worked off."""

from __future__ import annotations

from sharebroker.consumer.prefetch_window import Pace


def test_it_starts_small_and_doubles_for_the_fast() -> None:
    pace, windows = Pace(1500), []
    for round_ in range(9):
        windows.append(pace.window)
        pace.handed_out(pace.window, float(round_))
        pace.came_back(float(round_))
    assert windows == [16, 32, 64, 128, 256, 512, 1024, 1500, 1500]


def test_the_slow_get_about_a_seconds_work() -> None:
    pace = Pace(1500)
    pace.handed_out(16, 0.0)
    pace.came_back(8.0)
    assert pace.window == 2
    pace.handed_out(2, 8.0)
    pace.came_back(38.0)
    assert pace.window == 1


def test_short_locks_leave_less_time_for_waiting() -> None:
    pace = Pace(1500)
    pace.suit(1.0)
    pace.handed_out(16, 0.0)
    pace.came_back(1.0)
    assert pace.window == 4
    pace.suit(30.0)
    pace.handed_out(4, 1.0)
    pace.came_back(2.0)
    assert pace.window == 4


def test_coming_back_with_nothing_handed_out_says_nothing() -> None:
    pace = Pace(1500)
    pace.came_back(100.0)
    assert pace.window == 16


def test_the_most_holds_from_the_start() -> None:
    assert Pace(4).window == 4
