"""The acquisitions of one offset, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.testkit.checker.events import Delivered, Held, Requested, Verdict
from tests.testkit.checker.invariants import Invariant, broken

_ANY: Final = 2**63
"""A placeholder for an acquisition that no client observed; it is ordered by time alone."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The configuration of the group; times in seconds.

    `skew`: the largest difference between the clocks of two processes. `locks_slack`: the records by which
    the lock limit may be exceeded, since it does not split a batch. `soon`: the longest wait of an available
    record. `late`: the same without faults and locks, and the longest time from the end of a delay to the
    delivery. `grace`: the longest delay of a call beyond its deadline. `dead_letters`: failed records are
    archived with a dead letter only. `journal`: servers list each failed record; earlier releases do not.
    """

    lock_duration: float = 30.0
    delivery_count: int = 5
    record_locks: int = 2000
    skew: float = 0.002
    locks_slack: int = 0
    soon: float = 5.0
    late: float = 0.2
    grace: float = 0.5
    dead_letters: bool = False
    journal: bool = True


class StoredFacts(NamedTuple):
    """Facts from the log: leaders up to epoch `unsettled` had to reload their state; the delivery count of
    the offset, None without a log.
    """

    unsettled: int = -1
    deliveries: int | None = None


class Due(NamedTuple):
    """The earliest and the latest end of a delay that began under a leader epoch."""

    earliest: float
    latest: float
    leader_epoch: int


@dataclass(slots=True)
class Lock:
    """One acquisition that a member observed.

    `given_up`: another member may hold the record; `unseen`: the acquisition may have been undone;
    `streamed`: the member has a stream or session, which the leader serves without another call.
    """

    member: str
    token: int
    count: int
    deadline: float
    given_up: bool = False
    unseen: bool = False
    streamed: bool = False

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the acquisition: tokens start at the epoch times 2^32."""
        return self.token >> 32


@dataclass(slots=True)
class OffsetHistory:
    """One offset: its locks by token, the requested decisions, and how it was finished.

    `kept_count` is the highest delivery count known to be stored; `free_since` a time from which no member
    holds the record; `delivered_at` the time of its last delivery. `due` is the end of a delay that
    must be kept, `durable_lock` the last confirmed one, `released` the times of confirmed releases by token.
    """

    locks: dict[int, Lock] = field(default_factory=dict)
    requested: set[Verdict] = field(default_factory=set)
    finished_by: int | None = None
    finished_at: float = 0.0
    kept_count: int = 0
    free_since: float = 0.0
    delivered_at: float = 0.0
    due: Due | None = None
    durable_lock: Held | None = None
    released: dict[int, float] = field(default_factory=dict)

    def deliver(self, seen: Delivered, limits: Limits, facts: StoredFacts) -> None:
        """Adds a delivery. Responses may be late: tokens order acquisitions, not times."""
        # A streamed record may be undone before its member notices the end of the stream.
        lock = Lock(seen.member, seen.token, seen.count, seen.deadline, *(seen.streamed,) * 3)
        if seen.token in self.locks:
            broken(Invariant.ONE_HOLDER, f"{_name(seen)} was acquired twice under token {seen.token}")
        if self.finished_by is not None and seen.token > self.finished_by:
            broken(Invariant.FINISHED_STAYS, f"{_name(seen)} was redelivered to {seen.member}")
        if self.finished_by is not None and self._begins(lock, limits) > self.finished_at + limits.skew:
            broken(Invariant.FINISHED_STAYS, f"{_name(seen)} was delivered to {seen.member} by an old leader")
        if seen.count > limits.delivery_count:
            broken(Invariant.COUNT_LIMIT, f"{_name(seen)} has delivery count {seen.count}")
        before = max((other for other in self.locks if other < seen.token), default=None)
        after = min((other for other in self.locks if other > seen.token), default=None)
        if before is not None:
            self._check_pair(self.locks[before], lock, seen, limits, facts)
        if after is not None:
            self._check_pair(lock, self.locks[after], seen, limits, facts)
        if after is None and seen.count <= self.kept_count:
            broken(
                Invariant.COUNT_RISES, f"{_name(seen)} has count {seen.count}, {self.kept_count} is stored"
            )
        self.locks[seen.token] = lock
        self.delivered_at = max(self.delivered_at, seen.at)
        self.free_since = max(self.free_since, seen.deadline)

    def apply(self, at: float, request: Requested, name: str, limits: Limits) -> None:
        """Adds an acknowledgement that was applied and is durable."""
        verdict, token = request.verdict, request.token
        lock = self.locks.get(token)
        count = lock.count if lock is not None else 0
        if verdict.final and request.by_token and any(other > token for other in self.locks):
            broken(
                Invariant.FORMER_HOLDER_REFUSED,
                f"{name} was {verdict.value}ed after another member acquired it",
            )
        if request.by_token and request.at > self.released.get(token, request.at):
            broken(Invariant.FORMER_HOLDER_REFUSED, f"{name}: {verdict.value} after its holder released it")
        if verdict in (Verdict.RELEASE, Verdict.RETURN):
            self.released[token] = at
        if verdict is Verdict.RELEASE:
            self.kept_count = max(self.kept_count, count)
        if verdict.final or (verdict is Verdict.RELEASE and count >= limits.delivery_count):
            self.finished_by, self.finished_at = token if request.by_token else _ANY, at

    def may_have_been_requested(self, limits: Limits) -> bool:
        """Returns whether observed decisions or deliveries can have finished the record."""
        return any(verdict.final for verdict in self.requested) or self._most() >= limits.delivery_count

    def may_be_finished(self, limits: Limits, stored: int, unobserved_for: float) -> bool:
        """Returns whether anything can have finished it; `stored` is the delivery count in the log.

        While no message arrives at members or the log, locks may time out repeatedly.
        """
        return self.may_have_been_requested(limits) or self.may_be_exhausted(limits, stored, unobserved_for)

    def may_be_exhausted(self, limits: Limits, stored: int, unobserved_for: float) -> bool:
        """Returns whether it can have reached the delivery limit; see `may_be_finished`."""
        unobserved = 1 + int(unobserved_for / limits.lock_duration)
        return max(self._most(), stored) + unobserved >= limits.delivery_count

    def _most(self) -> int:
        return max((lock.count for lock in self.locks.values()), default=0)

    @staticmethod
    def _begins(lock: Lock, limits: Limits) -> float:
        """Returns the time of the acquisition on its leader's clock."""
        return lock.deadline - limits.lock_duration

    def _check_pair(
        self, earlier: Lock, later: Lock, seen: Delivered, limits: Limits, facts: StoredFacts
    ) -> None:
        """Checks two consecutive observed acquisitions of one leader; a new leader has no locks."""
        if earlier.leader_epoch != later.leader_epoch or earlier.leader_epoch <= facts.unsettled:
            return
        begun = self._begins(later, limits)
        if not earlier.given_up and begun < earlier.deadline - limits.skew:
            broken(
                Invariant.ONE_HOLDER,
                f"{_name(seen)} was delivered to {later.member} {earlier.deadline - begun:.3f} s before the "
                f"lock of {earlier.member} timed out",
            )
        # A leader drops unwritten state when it unloads a share-partition, and unobserved acquisitions may
        # lie between the two.
        counted = earlier.count - earlier.unseen
        least = 1 + (counted if facts.deliveries is None else min(counted, facts.deliveries))
        most = earlier.count + later.token - earlier.token
        if not least <= later.count <= most:
            broken(Invariant.COUNT_RISES, f"{_name(seen)} has count {later.count} after {earlier.count}")


def _name(seen: Delivered) -> str:
    return f"{seen.share} {seen.offset}"
