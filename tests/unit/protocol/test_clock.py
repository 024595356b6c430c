"""The process clock."""

from __future__ import annotations

import time

import pytest

from sharebroker_protocol import clock


def test_clock_is_the_wall_clock_and_never_decreases() -> None:
    first = clock.now()
    assert abs(first - time.time()) < 60.0
    assert clock.now() >= first
    assert abs(clock.monotonic() - time.monotonic()) < 60.0


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_jump_of_the_wall_clock_moves_no_deadline(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    wall_clock, first = time.time, clock.now()
    monkeypatch.setattr(time, "time", lambda: wall_clock() + jump)
    assert 0.0 <= clock.now() - first < 60.0


def test_a_simulation_replaces_both_clocks_until_it_ends() -> None:
    instants = iter((5.0, 7.0))
    with clock.counted_by(lambda: next(instants)):
        assert (clock.now(), clock.monotonic()) == (5.0, 7.0)
    assert abs(clock.now() - time.time()) < 60.0
    with pytest.raises(ZeroDivisionError), clock.counted_by(lambda: 5.0):
        raise ZeroDivisionError
    assert abs(clock.now() - time.time()) < 60.0


def test_simulations_may_be_nested() -> None:
    with clock.counted_by(lambda: 1.0):
        with clock.counted_by(lambda: 2.0):
            assert clock.now() == 2.0
        assert clock.now() == 1.0
