"""The prefetch window follows the processing rate of the application."""

from __future__ import annotations

from sharebroker.consumer.prefetch_window import PrefetchWindow


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
