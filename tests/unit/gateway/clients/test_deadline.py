"""Deadlines and backoff."""

from __future__ import annotations

import pytest

from sharebroker_server.gateway.clients.deadline import Backoff, Deadline


async def test_backoff_ends_at_the_deadline() -> None:
    backoff = Backoff(Deadline(0.05))
    pauses = 0
    while await backoff.pause():
        pauses += 1
    assert 1 <= pauses <= 3


class Context:
    def __init__(self, left: float | None) -> None:
        self._left = left

    def time_remaining(self) -> float | None:
        return self._left


@pytest.mark.parametrize(("left", "low", "high"), [(None, 29.0, 30.0), (10.0, 9.8, 9.9), (0.1, 0.0, 0.09)])
def test_deadline_is_earlier_than_that_of_the_caller(left: float | None, low: float, high: float) -> None:
    assert low <= Deadline.of(Context(left)).remaining() <= high
