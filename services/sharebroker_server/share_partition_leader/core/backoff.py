"""Retry backoff: how long a record waits after a delivery that failed."""

from __future__ import annotations

from enum import StrEnum
from math import ceil
from typing import Final, NamedTuple

_STEPS: Final = 1_000_003


class RetryCause(StrEnum):
    """Why a delivery failed: a value of `share.retry.backoff.on`."""

    RELEASE = "release"
    TIMEOUT = "timeout"
    SESSION = "session"


class RetryBackoff(NamedTuple):
    """The group's `share.retry.backoff.*`, in milliseconds. `limit_ms` is the broker's longest delay."""

    first_ms: int
    multiplier: float
    max_ms: int
    jitter: float
    on: frozenset[str]
    limit_ms: int

    def delay_ms(self, delivery_count: int, seed: int) -> float:
        """Returns the delay after the `delivery_count`th delivery, varied by a share of `jitter` at most.

        The variation depends on the `seed` only: records that failed together do not return together.
        """
        delay = float(self.first_ms)
        for _ in range(1, delivery_count):
            if delay >= self.max_ms or self.multiplier <= 1:
                break
            delay *= self.multiplier
        share = 2 * (hash((seed, delivery_count)) % _STEPS) / (_STEPS - 1) - 1
        return min(min(delay, self.max_ms) * (1 + self.jitter * share), self.limit_ms)


class FailedDelivery(NamedTuple):
    """A delivery that failed at `now_ms`; an explicit delay takes precedence over the group's backoff."""

    now_ms: float
    delay_ms: float | None
    backoff: RetryBackoff | None

    def not_before_ms(self, first_offset: int, delivery_count: int, token: int) -> int:
        """Returns the time of the next delivery, rounded up; 0: at once."""
        delay = self.delay_ms
        if delay is None:
            if self.backoff is None:
                return 0
            delay = self.backoff.delay_ms(delivery_count, hash((first_offset, token)))
        return ceil(self.now_ms + delay) if delay > 0 else 0
