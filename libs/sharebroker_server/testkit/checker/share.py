"""One share-partition: what clients saw of it beside what its log says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sharebroker_server.testkit.checker.events import (
    Applied,
    Asked,
    Delivered,
    LockLost,
    Moved,
    Share,
    Stored,
    Verdict,
)
from sharebroker_server.testkit.checker.invariants import Invariant, broken
from sharebroker_server.testkit.checker.locks import Fate, Kept, Limits, Lock
from sharebroker_server.testkit.checker.stored import StoredState


class ShareModel:
    """The fates of its offsets. `healed_at` is when the last fault was over, None before."""

    def __init__(self, share: Share, limits: Limits) -> None:
        self.share = share
        self.stored = StoredState()
        self.healed_at: float | None = None
        self._limits = limits
        self._fates: defaultdict[int, Fate] = defaultdict(Fate)
        self._held: dict[tuple[int, int], Lock] = {}
        self._begun: dict[int, float] = {}
        self._state_epoch = -1
        self._unsettled = -1
        self._moved_to = -1
        self._stale_leader = -1

    def reset(self) -> None:
        """An administrator is going to move the start offset: all begins anew."""
        self._begin_anew()
        self._moved_to = -1
        self.stored.reset()

    def moved(self, told: Moved) -> None:
        """The start offset is another one. Who leads already may not know it yet, and can write nothing."""
        if self.stored.known and self.stored.start < told.start:
            broken(
                Invariant.DURABLE_BEFORE_ANSWERED,
                f"{self.share} is to begin at {told.start}, and {self.stored.start} is in the log",
            )
        self._begin_anew()
        self._moved_to = told.start
        self.stored.settle()

    def _begin_anew(self) -> None:
        self._fates.clear()
        self._held.clear()
        self._stale_leader = max(self._stale_leader, self.stored.leader_epoch)

    def delivered(self, seen: Delivered, published_at: float) -> None:
        """A member was given a record that was published at a time."""
        if seen.offset < self._moved_to and seen.token >> 32 > self._stale_leader:
            broken(
                Invariant.FINISHED_STAYS,
                f"{self.share} {seen.offset} comes, and was to begin at {self._moved_to}",
            )
        fate = self._fates[seen.offset]
        if self.healed_at is not None:
            since = max(self.healed_at, fate.free_since, published_at)
            self._check_in_time(seen.offset, seen.at - since)
        count = self.stored.at(seen.offset).deliveries if self.stored.known else None
        fate.deliver(seen, self._limits, Kept(self._unsettled, count))
        self._held[seen.offset, seen.token] = fate.locks[seen.token]
        self._check_leaders(fate.locks[seen.token])
        self._check_in_flight(seen.at)

    def asked(self, question: Asked) -> None:
        """A member says what it wants."""
        fate = self._fates[question.offset]
        fate.asked.add(question.verdict)
        if question.verdict is not Verdict.RENEW:
            self._give_up(question.offset, question.token, unseen=question.verdict is Verdict.UNSEEN)

    def applied(self, question: Asked, answer: Applied, *, outdated: bool) -> None:
        """It was done; `outdated` says that another member had the record before the question was asked."""
        name = f"{self.share} {question.offset}"
        if outdated:
            broken(
                Invariant.FORMER_HOLDER_REFUSED, f"{name}: {question.verdict.value} by token {question.token}"
            )
        fate = self._fates[question.offset]
        fate.apply(answer.at, question, name, self._limits)
        lock = fate.locks.get(question.token)
        if question.verdict is Verdict.RENEW and lock is not None:
            lock.deadline = max(lock.deadline, answer.deadline - self._limits.skew)
            fate.free_since = max(fate.free_since, answer.deadline)
        if question.verdict.final and self.stored.known and not self.stored.finished(question.offset):
            broken(Invariant.DURABLE_BEFORE_ANSWERED, f"{name} is not in the log")

    def newest_token(self, offset: int) -> int:
        """Of the last acquisition that a member was told of."""
        return max(self._fates[offset].locks, default=-1)

    def lock_lost(self, told: LockLost) -> None:
        """A member knows that it does not hold a record any more."""
        self._give_up(told.offset, told.token)

    def left(self, member: str) -> None:
        """A member holds nothing any more."""
        for (offset, token), lock in list(self._held.items()):
            if lock.member == member:
                self._give_up(offset, token)

    def state_written(self, record: Stored, published: Mapping[int, float]) -> None:
        """The log has grown; `published` tells when producers heard of their records, by offset."""
        if record.state_epoch > self._state_epoch >= 0:
            # Whoever leads now will load the state anew, and not know its own locks any more.
            self._unsettled = max(self._unsettled, record.leader_epoch)
        self._state_epoch = max(self._state_epoch, record.state_epoch)
        kept = {
            offset: self.stored.at(offset).deliveries for offset in range(self.stored.start, record.start)
        }
        effect = self.stored.apply(record)
        if self.stored.being_moved:  # what was asked for before is not known any more
            return
        for offset, was in effect.reopened.items():
            # What could not be answered may be undone: nobody was promised anything.
            if self._fates[offset].finished_by is not None or was.deliveries >= self._limits.delivery_count:
                now = self.stored.at(offset)
                broken(Invariant.FINISHED_STAYS, f"{self.share} {offset} is stored as {now} after {was}")
        for offset in effect.finished:
            fate = self._fates[offset]
            count = max(kept.get(offset, 0), self.stored.at(offset).deliveries)
            unheard_for = record.at - max(fate.told_at, published.get(offset, 0.0))
            if not fate.may_be_finished(self._limits, count, unheard_for):
                broken(Invariant.NEVER_LOST, f"{self.share} {offset} is finished, and nobody asked for that")

    def state_forgotten(self) -> None:
        """The log says that nothing is kept any more; whoever leads has it in memory still."""
        self._unsettled = self._stale_leader = max(self._stale_leader, self.stored.leader_epoch)
        self.stored.forget(self.share)

    def unfinished(self, offset: int) -> bool:
        """Whether a record is surely not finished."""
        if self.stored.known:
            return not self.stored.finished(offset)
        fate = self._fates[offset]
        return fate.finished_by is None and not fate.may_have_been_asked(self._limits)

    def ever_delivered(self, offset: int) -> bool:
        """Whether a member was told of it."""
        return bool(self._fates[offset].locks)

    def _give_up(self, offset: int, token: int, *, unseen: bool = False) -> None:
        self._held.pop((offset, token), None)
        lock = self._fates[offset].locks.get(token)
        if lock is not None:
            lock.given_up = True
            lock.unseen = lock.unseen or unseen

    def _check_in_time(self, offset: int, waited: float) -> None:
        if waited > self._limits.soon:
            broken(Invariant.IN_TIME, f"{self.share} {offset} has waited {waited:.3f} s")

    def _check_leaders(self, lock: Lock) -> None:
        """Nobody is given records by a leader that another one follows already."""
        epoch, begun = lock.leader_epoch, lock.deadline - self._limits.lock_duration
        self._begun[epoch] = min(begun, self._begun.get(epoch, begun))
        for later, since in self._begun.items():
            if later > epoch and begun > since + self._limits.skew:
                broken(
                    Invariant.EPOCHS_RISE,
                    f"{self.share} is led under {epoch} {begun - since:.3f} s after it was under {later}",
                )

    def _check_in_flight(self, now: float) -> None:
        """Counts what is surely locked: a new leader knows no locks, a broken stream gives its own back."""
        most = self._limits.record_locks + self._limits.locks_slack
        if len(self._held) <= most:
            return
        newest = max(lock.leader_epoch for lock in self._held.values())
        self._held = {
            key: lock
            for key, lock in self._held.items()
            if lock.leader_epoch == newest > self._stale_leader
            and lock.deadline - self._limits.skew > now
            and not lock.given_up
        }
        if len(self._held) > most:
            broken(Invariant.IN_FLIGHT_LIMIT, f"{self.share} has {len(self._held)} records locked")
