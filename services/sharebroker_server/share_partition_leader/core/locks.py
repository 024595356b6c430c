"""Acquisition locks of a share-partition: who gets which token, and when the next one runs out.

Locks live in the runs they hold; here is only the token counter and a lower bound of all deadlines. The bound
may be early (its lock was given up in time): then `expire` finds nothing and looks up the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from sharebroker_protocol.model import RecordState
from sharebroker_server.share_partition_leader.core.in_flight import InFlight, Lock, Run
from sharebroker_server.share_partition_leader.core.states import Event, after_failed_delivery
from sharebroker_server.share_partition_leader.core.values import LostLock


def tokens_of(leader_epoch: int) -> Iterator[int]:
    """The tokens of a leader epoch: it fills the high 32 bits, a counter the low ones."""
    return count((leader_epoch << 32) + 1)


class Locks:
    """Issues locks and ends those that have run out.

    No two acquisitions of a partition may share a token, not even when its state was loaded anew in between:
    `tokens` goes on for as long as the leader epoch does.
    """

    __slots__ = ("_tokens", "bound")

    def __init__(self, tokens: Iterator[int]) -> None:
        self._tokens = tokens
        self.bound: float | None = None

    def issue(self, member: str, deadline: float, session: str = "") -> Lock:
        """Make the lock of a new acquisition."""
        self.watch(deadline)
        return Lock(member, next(self._tokens), deadline, session)

    def renew(self, lock: Lock, deadline: float) -> Lock:
        """Make the successor of a lock: same acquisition, later deadline."""
        self.watch(deadline)
        return Lock(lock.member, lock.token, deadline, lock.session)

    def watch(self, deadline: float) -> None:
        """Have `next_deadline` be no later than this."""
        if self.bound is None or deadline < self.bound:
            self.bound = deadline

    def expire(self, in_flight: InFlight, delivery_count_limit: int, now: float) -> list[LostLock]:
        """End the locks whose deadline is reached; a run with a pending transition waits for its outcome."""
        if self.bound is None or now < self.bound:
            return []
        self.bound = None
        return [
            _time_out(in_flight, run, run.lock, delivery_count_limit)
            for run in in_flight.runs
            if run.lock is not None and run.pending is None and not self._still_held(run.lock, now)
        ]

    def _still_held(self, lock: Lock, now: float) -> bool:
        if lock.deadline <= now:
            return False
        self.watch(lock.deadline)
        return True


def _time_out(in_flight: InFlight, run: Run, lock: Lock, delivery_count_limit: int) -> LostLock:
    state = after_failed_delivery(Event.LOCK_TIMEOUT, run.delivery_count, delivery_count_limit)
    run.unlock(state)
    if state is RecordState.AVAILABLE:
        in_flight.mark_available(run.first)
    else:
        in_flight.complete_count += run.size
    return LostLock(lock.member, lock.token, run.first, run.last, run.delivery_count, state)
