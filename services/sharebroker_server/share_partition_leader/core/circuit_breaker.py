"""The rule of the circuit breaker: the share of failed records among the finished ones, in a window."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

SAMPLES: Final = 60
"""Samples of a window. Older ones are dropped, so that the oldest is at most a window and a sample old."""


class Outcomes(NamedTuple):
    """Records that were accepted, and that failed, since a counter started."""

    accepted: int
    failed: int

    def since(self, earlier: Outcomes) -> Outcomes:
        """Returns the difference."""
        return Outcomes(self.accepted - earlier.accepted, self.failed - earlier.failed)


class Limit(NamedTuple):
    """When to pause a group: more than `percent` of at least `min_records` records failed.

    `window` is in seconds.
    """

    percent: int
    window: float
    min_records: int

    def exceeded_by(self, outcomes: Outcomes) -> bool:
        """Returns whether so many records failed."""
        finished = outcomes.accepted + outcomes.failed
        return finished >= self.min_records and outcomes.failed * 100 > self.percent * finished


class FailureWindow:
    """Samples of the counters of one group, oldest first; times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Outcomes]] = deque()

    def add(self, time: float, total: Outcomes, window: float) -> Outcomes:
        """Adds the counters at a time; returns what happened in the window before it.

        Counters that decreased were replaced, and the window starts again.
        """
        samples = self._samples
        if samples and min(total.since(samples[-1][1])) < 0:
            samples.clear()
        while len(samples) > 1 and samples[1][0] <= time - window:
            samples.popleft()
        if len(samples) < 2 or time - samples[-2][0] >= window / SAMPLES:
            samples.append((time, total))
        else:
            samples[-1] = time, total
        return total.since(samples[0][1])

    def restart(self, time: float, total: Outcomes) -> None:
        """Starts the window again: what happened before does not count."""
        self._samples = deque([(time, total)])
