"""Which quota applies to a client, and how long a client that exceeds it must wait.

Theory of operation
-------------------

A quota is a rate per second. Each client has a token bucket per kind of quota. It fills at the rate, and
holds at most `burst` seconds of it. Every request takes tokens, also more than there are. While the bucket
is below zero, the client must wait until it is empty. Over a long time a client that waits uses exactly its
rate. A client that was idle may use `burst` seconds of it at once, as with the samples of Kafka's `Rate`.

The most specific quota applies (Kafka: `ClientQuotaManager.DefaultQuotaCallback`). A quota of users and
client ids has one bucket per user and client id, a quota of users one per user, a quota of client ids one per
client id.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple

Parts = tuple[str | None, str | None]
"""User and client id of a quota: None if the part does not matter, DEFAULT for all others."""

DEFAULT: Final = ""

LONGEST_THROTTLE: Final = 3600.0
"""Seconds that a client must wait at most; its debt remains."""

MAX_BUCKETS: Final = 10_000
"""The largest number of buckets; the one that was used least recently is dropped."""

MAX_CACHED: Final = 10_000
"""The largest number of clients whose quotas are cached."""


class Applied(NamedTuple):
    """The quota of a client: its rate per second, and the name of the bucket that it shares."""

    rate: float
    bucket: Parts


def applied(quotas: Mapping[Parts, float], user: str, client_id: str) -> Applied | None:
    """Returns the most specific quota of a client; None if it has none."""
    both, one_user, one_client = (user, client_id), (user, None), (None, client_id)
    candidates: tuple[tuple[Parts, Parts], ...] = (
        (both, both),
        ((user, DEFAULT), both),
        (one_user, one_user),
        ((DEFAULT, client_id), both),
        ((DEFAULT, DEFAULT), both),
        ((DEFAULT, None), one_user),
        (one_client, one_client),
        ((None, DEFAULT), one_client),
    )
    for parts, bucket in candidates:
        if parts in quotas:
            return Applied(quotas[parts], bucket)
    return None


class TokenBucket:
    """The tokens of one client, full at first. `now` is in seconds and never decreases."""

    __slots__ = ("_at", "_tokens")

    def __init__(self, tokens: float, now: float) -> None:
        self._tokens = tokens
        self._at = now

    def take(self, amount: float, rate: float, burst: float, now: float) -> float:
        """Takes tokens; returns the seconds until there are none missing at this rate."""
        filled = self._tokens + (now - self._at) * rate
        self._tokens = min(filled, rate * burst) - amount
        self._at = now
        return min(max(-self._tokens / rate, 0.0), LONGEST_THROTTLE)


class QuotaUse:
    """The use of one kind of quota by all clients of a process; `burst` is in seconds."""

    __slots__ = ("_buckets", "_burst", "_cached", "_quotas", "limit")

    def __init__(self, burst: float, limit: int = MAX_BUCKETS) -> None:
        self.limit = limit
        self._burst = burst
        self._quotas: Mapping[Parts, float] = {}
        self._buckets: dict[Hashable, TokenBucket] = {}
        self._cached: dict[Parts, Applied | None] = {}

    def __bool__(self) -> bool:
        """Returns whether any client has a quota."""
        return bool(self._quotas)

    def replace(self, quotas: Mapping[Parts, float]) -> None:
        """Replaces the quotas; clients keep their tokens."""
        self._quotas = quotas
        self._cached.clear()
        if not quotas:
            self._buckets.clear()

    def charge(self, user: str, client_id: str, amount: float, now: float) -> float:
        """Takes `amount` from the client's quota; returns the seconds that it must wait."""
        found = self._applied(user, client_id)
        if found is None:
            return 0.0
        bucket = self._buckets.pop(found.bucket, None)
        if bucket is None:
            bucket = TokenBucket(found.rate * self._burst, now)
            if len(self._buckets) >= self.limit:
                del self._buckets[next(iter(self._buckets))]
        self._buckets[found.bucket] = bucket
        return bucket.take(amount, found.rate, self._burst, now)

    def _applied(self, user: str, client_id: str) -> Applied | None:
        key = user, client_id
        if key not in self._cached:
            if len(self._cached) >= MAX_CACHED:
                self._cached.clear()
            self._cached[key] = applied(self._quotas, user, client_id)
        return self._cached[key]
