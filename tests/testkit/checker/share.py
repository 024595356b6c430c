"""One share-partition: the observations of clients and the contents of its log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from math import inf
from typing import Final

from tests.testkit.checker.events import (
    Applied,
    DeadLetter,
    Delivered,
    Held,
    LockLost,
    Moved,
    Requested,
    Share,
    Stored,
    Verdict,
)
from tests.testkit.checker.invariants import Invariant, broken
from tests.testkit.checker.letters import ExpectedLetters
from tests.testkit.checker.locks import Due, Limits, Lock, OffsetHistory, StoredFacts
from tests.testkit.checker.stored import StoredState

_DRIFT: Final = 0.01
"""The largest part of a second by which the second of a leader differs."""


class ShareModel:
    """The histories of its offsets.

    `healed_at` is the end of the last fault, `recovered_at` the time from which records are delivered on
    time; None before.
    """

    def __init__(self, share: Share, limits: Limits) -> None:
        self.share = share
        self.stored = StoredState()
        self.letters = ExpectedLetters(share, self.stored, required=limits.dead_letters)
        self.healed_at: float | None = None
        self.recovered_at: float | None = None
        self._limits = limits
        self._histories: defaultdict[int, OffsetHistory] = defaultdict(OffsetHistory)
        self._held: dict[tuple[int, int], Lock] = {}
        self._begun: dict[int, float] = {}
        self._state_epoch = -1
        self._unsettled = -1
        self._moved_to = -1
        self._stale_leader = -1
        self._served: dict[tuple[str, int], float] = {}
        self._listed: Counter[int] = Counter()

    def reset(self) -> None:
        """Starts over: an administrator will move the start offset."""
        self._start_over()
        self._moved_to = -1
        self.letters.reset()
        self.stored.reset()

    def moved(self, moved: Moved) -> None:
        """Sets the new start offset. Current leaders may not have it yet, and cannot write."""
        if self.stored.known and self.stored.start < moved.start:
            broken(
                Invariant.DURABLE_BEFORE_ANSWERED,
                f"{self.share} was moved to {moved.start}, but the log has {self.stored.start}",
            )
        self._start_over()
        self._moved_to = moved.start
        self.stored.reset_done()

    def _start_over(self) -> None:
        self._histories.clear()
        self._held.clear()
        self._stale_leader = max(self._stale_leader, self.stored.leader_epoch)

    def delivered(self, seen: Delivered, published_at: float) -> None:
        """Adds a delivery of a record with its publish time."""
        if seen.offset < self._moved_to and seen.token >> 32 > self._stale_leader:
            broken(
                Invariant.FINISHED_STAYS,
                f"{self.share} {seen.offset} was delivered below the new start offset {self._moved_to}",
            )
        history = self._histories[seen.offset]
        not_before = self.stored.not_before(seen.offset, seen.count)
        if seen.at < not_before - self._limits.skew:
            broken(
                Invariant.NOT_EARLY,
                f"{self.share} {seen.offset} was delivered {not_before - seen.at:.3f} s before its time",
            )
        if self.healed_at is not None:
            since = max(self.healed_at, history.free_since, published_at, not_before)
            # With a count above 1 and no known lock, the response that had the earlier lock was lost.
            free = not history.locks and published_at > self._served_since(seen)
            prompt = free and seen.count == 1
            self._check_in_time(
                seen.offset, seen.at - since, self._limits.late if prompt else self._limits.soon
            )
        self._check_due(seen, history)
        held = history.durable_lock
        if held is not None and seen.token > held.token and seen.at < held.until:
            broken(
                Invariant.RUNS_ONCE,
                f"{self.share} {seen.offset} was delivered {held.until - seen.at:.3f} s before its end",
            )
        count = self.stored.at(seen.offset).deliveries if self.stored.known else None
        history.deliver(seen, self._limits, StoredFacts(self._unsettled, count))
        self._held[seen.offset, seen.token] = history.locks[seen.token]
        self._check_leaders(history.locks[seen.token])
        self._check_in_flight(seen.at)

    def requested(self, request: Requested) -> None:
        """Adds a decision of a member."""
        history = self._histories[request.offset]
        history.requested.add(request.verdict)
        if request.verdict is not Verdict.RENEW:
            uncounted = request.verdict in (Verdict.UNSEEN, Verdict.RETURN)
            self._give_up(request.offset, request.token, unseen=uncounted)

    def applied(self, request: Requested, response: Applied, *, outdated: bool) -> None:
        """Adds an applied decision; `outdated`: another member had acquired the record before the request."""
        name = f"{self.share} {request.offset}"
        if outdated:
            broken(
                Invariant.FORMER_HOLDER_REFUSED, f"{name}: {request.verdict.value} by token {request.token}"
            )
        history = self._histories[request.offset]
        history.apply(response.at, request, name, self._limits)
        lock = history.locks.get(request.token)
        recovered = self.recovered_at is not None and request.at > self.recovered_at
        if request.delay and recovered and lock is not None and lock.streamed:
            shortest = request.delay * (1 - _DRIFT)
            history.due = Due(request.at + shortest, response.at + request.delay, lock.leader_epoch)
        if request.verdict is Verdict.RENEW and lock is not None:
            lock.deadline = max(lock.deadline, response.deadline - self._limits.skew)
            history.free_since = max(history.free_since, response.deadline)
        if request.verdict is Verdict.REJECT:
            self.letters.rejected(request.offset)
        durable = self.stored.being_moved or self.stored.ended(request.offset)
        if request.verdict.final and self.stored.known and not durable:
            broken(Invariant.DURABLE_BEFORE_ANSWERED, f"{name} is not durable")

    def held(self, event: Held) -> None:
        """Adds a confirmed durable lock; it cannot be confirmed after a later acquisition."""
        if self.newest_token(event.offset) > event.token:
            broken(Invariant.RUNS_ONCE, f"{self.share} {event.offset} was acquired by another member")
        self._histories[event.offset].durable_lock = event

    def newest_token(self, offset: int) -> int:
        """Returns the token of the latest observed acquisition."""
        return max(self._histories[offset].locks, default=-1)

    def lock_lost(self, lost: LockLost) -> None:
        """Adds a lost lock."""
        self._give_up(lost.offset, lost.token)

    def member_left(self, member: str) -> None:
        """Adds the end of a member, whose locks end."""
        for (offset, token), lock in list(self._held.items()):
            if lock.member == member:
                self._give_up(offset, token)

    def state_written(
        self,
        record: Stored,
        published: Mapping[int, float],
        expired: Set[int] = frozenset(),
        recalled: Set[int] = frozenset(),
    ) -> None:
        """Adds a state record; `published` contains the publish times by offset.

        Records in `expired` and `recalled` are finished without a request.
        """
        started = self.stored.start >= 0
        if record.state_epoch > self._state_epoch >= 0:
            # The current leader will reload the state, without its locks.
            self._unsettled = max(self._unsettled, record.leader_epoch)
            self._held.clear()
        self._state_epoch = max(self._state_epoch, record.state_epoch)
        previous_counts = {
            offset: self.stored.at(offset).deliveries for offset in range(self.stored.start, record.start)
        }
        listed = Counter(record.failed)
        if record.journal is not None:  # the complete one: only what is new was listed by this record
            listed += Counter(record.journal) - self._listed
            self._listed = Counter(record.journal)
        self._listed.update(record.failed)
        effect = self.stored.apply(record)
        if self.stored.being_moved:  # earlier decisions are no longer tracked
            return
        for offset, previous in effect.reopened.items():
            # An unconfirmed decision may be undone.
            if (
                self._histories[offset].finished_by is not None
                or previous.deliveries >= self._limits.delivery_count
            ):
                now = self.stored.at(offset)
                broken(Invariant.FINISHED_STAYS, f"{self.share} {offset} is stored as {now} after {previous}")
        for offset in effect.ended:
            if offset in expired or offset in recalled:
                continue
            history = self._histories[offset]
            count = max(previous_counts.get(offset, 0), self.stored.at(offset).deliveries)
            unobserved_for = record.at - max(history.delivered_at, published.get(offset, 0.0))
            if not history.may_be_finished(self._limits, count, unobserved_for):
                broken(Invariant.NEVER_LOST, f"{self.share} {offset} is finished without a request")
            failed = Verdict.REJECT in history.requested
            failed = failed or history.may_be_exhausted(self._limits, count, unobserved_for)
            if self.stored.archiving(offset) and not failed:
                broken(Invariant.LETTER_OF_FAILURE, f"{self.share} {offset} did not fail")
        if started and self._limits.journal:
            self._check_journal(listed, effect.ended, recalled)
        self.letters.fail(tuple(listed))
        self.check_letters({*effect.finished, *listed})

    def _check_journal(self, listed: Counter[int], finished: Sequence[int], recalled: Set[int]) -> None:
        """Checks that a record lists the offsets that it finishes although no member may have accepted
        them.
        """
        for offset in listed - Counter(set(finished)):
            broken(Invariant.LISTED_ONCE, f"{self.share} {offset} is listed again")
        for offset in finished:
            accepted = Verdict.ACCEPT in self._histories[offset].requested
            if not (offset in listed or accepted or offset in recalled):
                broken(Invariant.LISTED_ONCE, f"{self.share} {offset} is not listed")

    def lettered(self, letter: DeadLetter) -> None:
        """Adds a dead letter."""
        requested = self._histories[letter.offset].requested
        if letter.rejected and not self.letters.restarted and Verdict.REJECT not in requested:
            broken(Invariant.LETTER_OF_FAILURE, f"{self.share} {letter.offset} was not rejected")
        self.letters.written(letter)

    def check_letters(self, offsets: Collection[int]) -> None:
        """Checks that records which failed have letters, or wait for them."""
        accepted = {each for each in offsets if Verdict.ACCEPT in self._histories[each].requested}
        self.letters.check(offsets, accepted)

    def journal_read(self, offsets: Sequence[int], dropped: int) -> None:
        """Compares the listed failed records with those in the log; dropped ones are in the log, too."""
        if not self._limits.journal:
            return
        # A record is twice in the log if a rejection without a response was undone, and it failed again.
        listed, again = sorted(self._listed), self._listed.total() - len(self._listed)
        if not len(listed) <= len(offsets) + dropped <= len(listed) + (again if dropped else 0):
            broken(
                Invariant.LISTED_ONCE,
                f"{self.share} lists {sorted(offsets)} and {dropped} more instead of {listed}",
            )
        if Counter(offsets) - Counter(listed):
            broken(Invariant.LISTED_ONCE, f"{self.share}: not all of {sorted(offsets)} failed, or some twice")

    def state_forgotten(self) -> None:
        """Adds the deletion of the state, which the current leader still has in memory."""
        self._unsettled = self._stale_leader = max(self._stale_leader, self.stored.leader_epoch)
        self._listed = Counter()
        self.stored.forget(self.share)

    def unfinished(self, offset: int) -> bool:
        """Returns whether a record is certainly unfinished."""
        if self.stored.known:
            return not self.stored.finished(offset)
        history = self._histories[offset]
        return history.finished_by is None and not history.may_have_been_requested(self._limits)

    def ever_delivered(self, offset: int) -> bool:
        """Returns whether a member received the record."""
        return bool(self._histories[offset].locks)

    def _give_up(self, offset: int, token: int, *, unseen: bool = False) -> None:
        self._held.pop((offset, token), None)
        lock = self._histories[offset].locks.get(token)
        if lock is not None:
            lock.given_up = True
            lock.unseen = lock.unseen or unseen

    def _served_since(self, seen: Delivered) -> float:
        """Returns the time of the stream's first delivery by this leader after the recovery, or infinity."""
        if self.recovered_at is None or seen.at < self.recovered_at or not seen.streamed:
            return inf
        return self._served.setdefault((seen.member, seen.token >> 32), seen.at)

    def _check_due(self, seen: Delivered, history: OffsetHistory) -> None:
        due, history.due = history.due, None
        if due is None or due.leader_epoch != seen.token >> 32:  # the clocks of two leaders differ
            return
        name = f"{self.share} {seen.offset}"
        if seen.at < due.earliest:
            broken(
                Invariant.NOT_EARLY, f"{name} was delivered {due.earliest - seen.at:.3f} s before its time"
            )
        if seen.streamed and seen.at > due.latest + self._limits.late:
            broken(Invariant.ON_TIME, f"{name} was delivered {seen.at - due.latest:.3f} s after its time")

    def _check_in_time(self, offset: int, waited: float, longest: float) -> None:
        if waited > longest:
            broken(Invariant.IN_TIME, f"{self.share} {offset} waited {waited:.3f} s")

    def _check_leaders(self, lock: Lock) -> None:
        """Checks that no leader delivers after its successor."""
        epoch, begun = lock.leader_epoch, lock.deadline - self._limits.lock_duration
        self._begun[epoch] = min(begun, self._begun.get(epoch, begun))
        for later, since in self._begun.items():
            if later > epoch and begun > since + self._limits.skew:
                broken(
                    Invariant.EPOCHS_RISE,
                    f"{self.share} was led with epoch {epoch} {begun - since:.3f} s after epoch {later}",
                )

    def _check_in_flight(self, now: float) -> None:
        """Counts the certain locks.

        A new leader has none, and neither has one that reloaded its state. A broken stream releases its own.
        """
        limit = self._limits.record_locks + self._limits.locks_slack
        if len(self._held) <= limit:
            return
        newest = max(lock.leader_epoch for lock in self._held.values())
        self._held = {
            key: lock
            for key, lock in self._held.items()
            if lock.leader_epoch == newest > max(self._stale_leader, self._unsettled)
            and lock.deadline - self._limits.skew > now
            and not lock.given_up
        }
        if len(self._held) > limit:
            broken(Invariant.IN_FLIGHT_LIMIT, f"{self.share} has {len(self._held)} records locked")
