"""What members were given of one offset, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sharebroker_server.testkit.checker.events import Asked, Delivered, Verdict
from sharebroker_server.testkit.checker.invariants import Invariant, broken

_ANY: Final = 2**63
"""Stands for an acquisition that nobody told of: times alone say what came after it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the group is configured to; times in seconds.

    `skew`: how far the clocks of two processes may be apart. `locks_slack`: how many records more may be
    locked, as the limit does not cut a batch. `soon`: how long a free record may wait. `grace`: how much
    later than its deadline a call may end.
    """

    lock_duration: float = 30.0
    delivery_count: int = 5
    record_locks: int = 2000
    skew: float = 0.002
    locks_slack: int = 0
    soon: float = 5.0
    grace: float = 0.5


class Kept(NamedTuple):
    """What the log tells: leaders up to the epoch `unsettled` had to load their state anew; the delivery
    count of an offset, None where no log is read.
    """

    unsettled: int = -1
    deliveries: int | None = None


@dataclass(slots=True)
class Lock:
    """One acquisition that a member was told of. `given_up`: somebody else may have the record; `unseen`: it
    may have been taken back as if it had not been delivered.
    """

    member: str
    token: int
    count: int
    deadline: float
    given_up: bool = False
    unseen: bool = False

    @property
    def leader_epoch(self) -> int:
        """Under which it was given: tokens start at the epoch times 2^32."""
        return self.token >> 32


@dataclass(slots=True)
class Fate:
    """One offset: its locks by token, what was asked for it, and how it was finished.

    `kept_count` is the highest delivery count that is known to be stored; `free_since` a time from which
    nobody holds the record; `told_at` when a member was last told of it.
    """

    locks: dict[int, Lock] = field(default_factory=dict)
    asked: set[Verdict] = field(default_factory=set)
    finished_by: int | None = None
    finished_at: float = 0.0
    kept_count: int = 0
    free_since: float = 0.0
    told_at: float = 0.0

    def deliver(self, seen: Delivered, limits: Limits, kept: Kept) -> None:
        """A member has the record. Answers may come late: tokens, not times, say what came first."""
        # What a stream brought may have been given back, unseen, before its member hears of the stream's end.
        lock = Lock(seen.member, seen.token, seen.count, seen.deadline, seen.streamed, seen.streamed)
        if seen.token in self.locks:
            broken(Invariant.ONE_HOLDER, f"{_name(seen)} was acquired twice under token {seen.token}")
        if self.finished_by is not None and seen.token > self.finished_by:
            broken(Invariant.FINISHED_STAYS, f"{_name(seen)} comes to {seen.member} again")
        if self.finished_by is not None and self._begins(lock, limits) > self.finished_at + limits.skew:
            broken(
                Invariant.FINISHED_STAYS, f"{_name(seen)} comes to {seen.member} from a leader of the past"
            )
        if seen.count > limits.delivery_count:
            broken(Invariant.COUNT_LIMIT, f"{_name(seen)} comes for the {seen.count}th time")
        before = max((other for other in self.locks if other < seen.token), default=None)
        after = min((other for other in self.locks if other > seen.token), default=None)
        if before is not None:
            self._check_pair(self.locks[before], lock, seen, limits, kept)
        if after is not None:
            self._check_pair(lock, self.locks[after], seen, limits, kept)
        if after is None and seen.count <= self.kept_count:
            broken(
                Invariant.COUNT_RISES, f"{_name(seen)} has count {seen.count}, {self.kept_count} is stored"
            )
        self.locks[seen.token] = lock
        self.told_at = max(self.told_at, seen.at)
        self.free_since = max(self.free_since, seen.deadline)

    def apply(self, at: float, question: Asked, name: str, limits: Limits) -> None:
        """An acknowledgement took effect and is durable."""
        verdict, token = question.verdict, question.token
        lock = self.locks.get(token)
        count = lock.count if lock is not None else 0
        if verdict.final and question.by_token and any(other > token for other in self.locks):
            broken(Invariant.FORMER_HOLDER_REFUSED, f"{name} was {verdict.value}ed when others had it")
        if verdict is Verdict.RELEASE:
            self.kept_count = max(self.kept_count, count)
        if verdict.final or (verdict is Verdict.RELEASE and count >= limits.delivery_count):
            self.finished_by, self.finished_at = token if question.by_token else _ANY, at

    def may_have_been_asked(self, limits: Limits) -> bool:
        """Whether what members said, or were told, can have finished it."""
        return any(verdict.final for verdict in self.asked) or self._most() >= limits.delivery_count

    def may_be_finished(self, limits: Limits, stored: int, unheard_for: float) -> bool:
        """Whether anything can have; `stored` is the delivery count in the log.

        While nothing gets through, neither to members nor to the log, a lock may run out again and again.
        """
        untold = 1 + int(unheard_for / limits.lock_duration)
        return self.may_have_been_asked(limits) or max(self._most(), stored) + untold >= limits.delivery_count

    def _most(self) -> int:
        return max((lock.count for lock in self.locks.values()), default=0)

    @staticmethod
    def _begins(lock: Lock, limits: Limits) -> float:
        """When it was acquired, on its leader's clock."""
        return lock.deadline - limits.lock_duration

    def _check_pair(self, earlier: Lock, later: Lock, seen: Delivered, limits: Limits, kept: Kept) -> None:
        """Two acquisitions, none between them known, of one leader: a new leader knows no locks."""
        if earlier.leader_epoch != later.leader_epoch or earlier.leader_epoch <= kept.unsettled:
            return
        begun = self._begins(later, limits)
        if not earlier.given_up and begun < earlier.deadline - limits.skew:
            broken(
                Invariant.ONE_HOLDER,
                f"{_name(seen)} went to {later.member} {earlier.deadline - begun:.3f} s before the lock of "
                f"{earlier.member} ran out",
            )
        # A leader that nobody uses forgets what it could not write; one acquisition each that nobody was told
        # of may lie between the two.
        counted = earlier.count - earlier.unseen
        least = 1 + (counted if kept.deliveries is None else min(counted, kept.deliveries))
        most = earlier.count + later.token - earlier.token
        if not least <= later.count <= most:
            broken(Invariant.COUNT_RISES, f"{_name(seen)} has count {later.count} after {earlier.count}")


def _name(seen: Delivered) -> str:
    return f"{seen.share} {seen.offset}"
