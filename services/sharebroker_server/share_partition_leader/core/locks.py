"""The acquisition locks of a share-partition: issues and renews them, and ends those that timed out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from operator import attrgetter
from typing import Final

from sharebroker_protocol.model import RecordState
from sharebroker_server.share_partition_leader.core.backoff import FailedDelivery
from sharebroker_server.share_partition_leader.core.events import Counts, LostLock, SharePartitionSettings
from sharebroker_server.share_partition_leader.core.in_flight import SPARE, InFlight
from sharebroker_server.share_partition_leader.core.runs import Lock, Run
from sharebroker_server.share_partition_leader.core.transitions import RecordEvent, after_failed_delivery

RECHECK: Final = 10.0
"""Seconds after which a lock is checked again that has timed out while its acknowledgement was written."""

DURABLE_LOCK: Final = 60.0
"""Seconds: requested locks from this length on are stored."""


def is_durable(member: str, length: float) -> bool:
    """Whether a lock of a requested length is stored; 0: no length was requested.

    A lock that a stream holds is not, because it ends with the stream. Such holders begin with a number.
    """
    return length >= DURABLE_LOCK and not member[:1].isdigit()


def tokens_of(leader_epoch: int) -> Iterator[int]:
    """The tokens of a leader epoch: the epoch in the high 32 bits, a counter in the low ones."""
    return count((leader_epoch << 32) + 1)


class Locks:
    """Issues acquisition locks and ends those that timed out.

    The runs refer to their locks; this object has the token counter and a heap of the deadlines. A lock that
    ended stays in the heap until its deadline, or until the heap is rebuilt without such locks.

    No two acquisitions of a partition share a token, not even if the state was loaded again in between:
    `tokens` continues as long as the leader epoch.
    """

    __slots__ = ("_heap", "_in_flight", "_limit", "_order", "_tokens")

    def __init__(self, in_flight: InFlight, tokens: Iterator[int]) -> None:
        self._in_flight = in_flight
        self._tokens = tokens
        self._heap: list[tuple[float, int, Lock]] = []
        self._order = count()  # of locks with equal deadlines, which cannot be compared
        self._limit = SPARE
        if in_flight.locked:
            for lock in dict.fromkeys(run.lock for run in in_flight.runs if run.lock is not None):
                self.watch(lock)

    @property
    def bound(self) -> float | None:
        """A time at or before the earliest deadline, or None without locks."""
        return self._heap[0][0] if self._heap else None

    def issue(self, member: str, deadline: float, session: str = "") -> Lock:
        """Creates the lock of a new acquisition; `watch` it once it covers its records."""
        return Lock(member, next(self._tokens), deadline, session)

    def make_durable(self, first: int) -> Lock:
        """Marks the lock of the record at an offset, which was just acquired, as one to store."""
        lock = self._in_flight.runs[self._in_flight.locate(first)].lock
        assert lock is not None
        lock.durable = True
        return lock

    def renew(self, held: Sequence[tuple[Run, Lock]], deadline: float, durable: bool = False) -> list[Lock]:
        """Replaces the locks of runs by their successors: same acquisition, another deadline.

        Returns the successors that have to be stored: durable ones, and those of durable ones.
        """
        successors: dict[Lock, Lock] = {}
        for run, lock in held:
            if lock not in successors:
                successor = Lock(lock.member, lock.token, deadline, lock.session, durable)
                successor.first, successor.last = lock.first, lock.last
                successors[lock] = successor
            run.lock = successors[lock]
        self._in_flight.coalesce([run for run, _ in held])
        for lock in successors.values():
            self.watch(lock)
        return [successor for lock, successor in successors.items() if durable or lock.durable]

    def watch(self, lock: Lock) -> None:
        """Ends the lock at its deadline; call it when runs have the lock."""
        heappush(self._heap, (lock.deadline, next(self._order), lock))
        self._in_flight.locks_of.setdefault(lock.member, {})[lock] = None
        if len(self._heap) > self._limit:
            held = {each: None for _, _, each in self._heap if self._in_flight.is_held(each)}
            self._heap = [(each.deadline, next(self._order), each) for each in held]
            heapify(self._heap)
            self._limit = 2 * len(held) + SPARE
            self._in_flight.locks_of.clear()
            for each in held:
                self._in_flight.locks_of.setdefault(each.member, {})[each] = None

    def expire(
        self, settings: SharePartitionSettings, now: float, retry: FailedDelivery | None = None
    ) -> list[LostLock]:
        """Ends the locks whose deadline is reached, except those of runs with a pending transition."""
        ended: list[Run] = []
        lost: list[LostLock] = []
        while self._heap and self._heap[0][0] <= now:
            lock = heappop(self._heap)[2]
            for run in self._in_flight.under(lock):
                if run.pending is None:
                    lost.append(_time_out(self._in_flight, run, lock, settings, retry))
                    ended.append(run)
            if self._in_flight.is_held(lock):
                heappush(self._heap, (now + RECHECK, next(self._order), lock))
            else:
                self._forget(lock)
        self._in_flight.coalesce(ended)
        lost.sort(key=attrgetter("first"))
        return lost

    def _forget(self, lock: Lock) -> None:
        locks_of = self._in_flight.locks_of
        others = locks_of.get(lock.member, {})
        others.pop(lock, None)
        if not others:
            locks_of.pop(lock.member, None)


def _time_out(
    in_flight: InFlight, run: Run, lock: Lock, settings: SharePartitionSettings, retry: FailedDelivery | None
) -> LostLock:
    limit, letters = settings.delivery_count_limit, settings.dead_letters
    state = after_failed_delivery(RecordEvent.LOCK_TIMEOUT, run.delivery_count, limit, dead_letters=letters)
    not_before_ms = run.next_delivery_ms(retry) if state is RecordState.AVAILABLE else 0
    in_flight.locked -= run.size
    run.unlock(state)
    run.not_before_ms = not_before_ms
    run.stored = state is not RecordState.ARCHIVING
    in_flight.tally(run, run.size)
    if not_before_ms:
        in_flight.wait(run)
    elif state is RecordState.AVAILABLE:
        in_flight.mark_available(run.first)
    return LostLock(lock.member, lock.token, run.first, run.last, run.delivery_count, state, not_before_ms)


def count_time_outs(counts: Counts, lost: Sequence[LostLock]) -> None:
    """Counts locks that timed out."""
    for lock in lost:
        size = lock.last - lock.first + 1
        counts.lost += size
        if lock.state is not RecordState.AVAILABLE:
            counts.exhausted += size
