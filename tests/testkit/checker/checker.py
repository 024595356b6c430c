"""Verifies a history event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from sharebroker.verification.rules import verify
from tests.testkit.checker import events as e
from tests.testkit.checker.invariants import Invariant, broken
from tests.testkit.checker.locks import Limits
from tests.testkit.checker.share import ShareModel


class Checker:
    """Verifies events in the order in which they were observed; `feed` raises Violation at the first error.

    `groups` must have finished their records at the end.
    """

    def __init__(self, limits: Limits, groups: Iterable[str] = ()) -> None:
        self._limits = limits
        self._groups = tuple(groups)
        self._shares: dict[e.Share, ShareModel] = {}
        self._values: dict[tuple[str, int], dict[int, str]] = {}
        self._published: dict[tuple[str, int], dict[int, float]] = {}
        self._expired: dict[tuple[str, int], set[int]] = {}
        self._hidden: dict[tuple[str, int], set[int]] = {}
        self._may_be_recalled: dict[tuple[str, int], set[int]] = {}
        self._recalled: dict[tuple[str, int], set[int]] = {}
        self._addressed: dict[tuple[str, int], dict[int, str]] = {}
        self._copies: dict[tuple[e.Share, int], set[int]] = {}
        self._letters: Counter[tuple[e.Share, int]] = Counter()
        self._written: set[tuple[str, int, str]] = set()
        self._requests: dict[int, tuple[e.Requested, bool]] = {}
        self._logs: dict[str, tuple[int, int]] = {}
        self._calls: dict[int, e.CallBegan] = {}
        self._stale_writes: dict[int, e.WriteBegan] = {}
        self._paused: set[str] = set()
        self._healed_at: float | None = None
        self._recovered_at: float | None = None

    def feed(self, event: e.Event) -> None:
        """Processes the next event. Raises Violation."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def unfinished(self) -> int:
        """Returns the number of published records that are certainly unfinished, per group."""
        return sum(1 for _ in self._unfinished())

    def lag(self, share: e.Share, end: int) -> int:
        """Returns the number of records below the log end that the stored state does not finish."""
        return self._share(share).stored.lag(end)

    def _unfinished(self) -> Iterable[tuple[ShareModel, int]]:
        for group in self._groups:
            for (topic, partition), offsets in self._published.items():
                model = self._share(e.Share(group, topic, partition))
                yield from ((model, offset) for offset in offsets if model.unfinished(offset))

    def _share(self, share: e.Share) -> ShareModel:
        model = self._shares.get(share)
        if model is None:
            model = self._shares[share] = ShareModel(share, self._limits)
            model.healed_at = self._healed_at
            model.recovered_at = self._recovered_at
        return model

    def _check_value(self, log: tuple[str, int], offset: int, value: str) -> None:
        stored_value = self._values.setdefault(log, {}).setdefault(offset, value)
        if stored_value != value:
            broken(Invariant.NEVER_LOST, f"{log} {offset} was {stored_value!r} and is now {value!r}")

    # Observations of clients

    def _on_published(self, event: e.Published) -> None:
        log = (event.topic, event.partition)
        self._check_value(log, event.offset, event.value)
        self._published.setdefault(log, {}).setdefault(event.offset, event.at)

    def _on_written(self, event: e.Written) -> None:
        record = (event.topic, event.partition, event.value)
        if record in self._written:
            broken(Invariant.STORED_ONCE, f"{record} was written twice")
        self._written.add(record)

    def _on_held(self, event: e.Held) -> None:
        self._share(event.share).held(event)

    def _on_expired(self, event: e.Expired) -> None:
        offsets = self._expired.setdefault((event.topic, event.partition), set())
        offsets.update(range(event.first, event.last + 1))

    def _on_hidden(self, event: e.Hidden) -> None:
        offsets = self._hidden.setdefault((event.topic, event.partition), set())
        offsets.update(range(event.first, event.last + 1))

    def _on_recalled(self, event: e.Recalled) -> None:
        log = event.topic, event.partition
        # A recall without a response may have been applied: groups then finish the record without a request.
        self._may_be_recalled.setdefault(log, set()).add(event.offset)
        if event.confirmed:
            self._recalled.setdefault(log, set()).add(event.offset)

    def _on_addressed(self, event: e.Addressed) -> None:
        share, log = event.share, event.share.log
        copies = self._copies.setdefault((share, event.source), set())
        copies.add(event.copy)
        if len(copies) > max(self._letters[share, event.source], 1):  # each letter may be redriven
            broken(Invariant.COPIED_ONCE, f"{share} {event.source} was copied again to {event.copy}")
        if self._values.get(log, {}).get(event.source, event.value) != event.value:
            broken(Invariant.COPIED_ONCE, f"{share} {event.source} was copied as {event.value!r}")
        self._check_value(log, event.copy, event.value)
        self._addressed.setdefault(log, {})[event.copy] = share.group

    def _on_retried(self, event: e.Retried) -> None:
        if event.copy not in self._copies.get((event.share, event.source), ()):
            broken(Invariant.COPIED_ONCE, f"{event.share} {event.source} is not copied to {event.copy}")
        self._published.setdefault(event.share.log, {}).setdefault(event.copy, event.at)

    def _on_dead_letter(self, event: e.DeadLetter) -> None:
        self._letters[event.share, event.offset] += 1
        if event.value is not None:
            stored_value = self._values.get(event.share.log, {}).get(event.offset, event.value)
            if stored_value != event.value:
                was = f"{event.share} {event.offset} was {stored_value!r}"
                broken(Invariant.LETTER_OF_FAILURE, f"{was}, its letter has {event.value!r}")
        self._share(event.share).lettered(event)

    def _for_others(self, share: e.Share) -> set[int]:
        """Returns the offsets of records that are addressed to another group."""
        addressed = self._addressed.get(share.log, {})
        return {offset for offset, group in addressed.items() if group != share.group}

    def _on_confirmed(self, event: e.Confirmed) -> None:
        record = (event.topic, event.partition, event.value)
        if record not in self._written:
            broken(Invariant.NEVER_LOST, f"{record} is confirmed and was never written")

    def _on_returned(self, event: e.Returned) -> None:
        if event.value != event.written:
            broken(
                Invariant.RECREATED, f"{event.share} {event.offset} is {event.value!r}, not {event.written!r}"
            )

    def _on_undelivered(self, event: e.Undelivered) -> None:
        if event.offsets:
            broken(Invariant.RECREATED, f"{event.topic} {event.offsets} were not delivered")

    def _on_kept(self, event: e.Kept) -> None:
        if event.missing:
            broken(Invariant.NOT_HIDDEN, f"{event.topic} {event.missing} were not delivered")
        if event.repeated:
            broken(Invariant.FINISHED_STAYS, f"{event.topic} {event.repeated} were delivered again")

    def _on_paused(self, event: e.Paused) -> None:
        self._paused.add(event.group)

    def _on_resumed(self, event: e.Resumed) -> None:
        self._paused.discard(event.group)

    def _on_breaker(self, event: e.Breaker) -> None:
        if event.expected and not event.paused:
            broken(Invariant.BREAKS, f"{event.group} is not paused")
        if event.paused and not event.expected:
            broken(Invariant.RESUMES, f"{event.group} is paused")

    def _on_delivered(self, event: e.Delivered) -> None:
        if event.share.group in self._paused:
            broken(Invariant.PAUSED, f"{event.share} {event.offset} was delivered to {event.member}")
        if event.offset in self._expired.get(event.share.log, ()):
            broken(Invariant.NOT_EXPIRED, f"{event.share} {event.offset} was delivered to {event.member}")
        if event.offset in self._hidden.get(event.share.log, ()):
            broken(Invariant.STATE_HIDDEN, f"{event.share} {event.offset} was delivered to {event.member}")
        self._check_value(event.share.log, event.offset, event.value)
        if event.offset in self._recalled.get(event.share.log, ()):
            broken(Invariant.NOT_RECALLED, f"{event.share} {event.offset} was delivered to {event.member}")
        if event.offset in self._for_others(event.share):
            broken(Invariant.FOR_ITS_GROUP, f"{event.share} {event.offset} was delivered to {event.member}")
        published_at = self._published.get(event.share.log, {}).get(event.offset, event.at)
        if event.value.startswith(e.DUE):
            due = float(event.value.split()[1])
            if event.at < due - self._limits.skew:
                early = f"{event.share} {event.offset} was delivered {due - event.at:.3f} s early"
                broken(Invariant.NOT_EARLY, early)
            published_at = max(published_at, due)
        self._share(event.share).delivered(event, published_at)

    def _on_requested(self, event: e.Requested) -> None:
        model = self._share(event.share)
        outdated = event.by_token and model.newest_token(event.offset) > event.token
        self._requests[event.request_id] = event, outdated
        model.requested(event)

    def _on_applied(self, event: e.Applied) -> None:
        request, outdated = self._requests.pop(event.request_id)
        self._share(request.share).applied(request, event, outdated=outdated)

    def _on_lock_lost(self, event: e.LockLost) -> None:
        self._share(event.share).lock_lost(event)

    def _on_member_left(self, event: e.MemberLeft) -> None:
        for model in self._shares.values():
            if model.share.group == event.group:
                model.member_left(event.member)

    def _on_reset(self, event: e.Reset) -> None:
        self._share(event.share).reset()

    def _on_moved(self, event: e.Moved) -> None:
        self._share(event.share).moved(event)

    # Contents of logs

    def _on_appended(self, event: e.Appended) -> None:
        epoch, end = self._logs.get(event.log, (0, -1))
        if event.epoch < epoch:
            broken(Invariant.EPOCHS_RISE, f"{event.log} was written with epoch {event.epoch} after {epoch}")
        if event.first <= end:
            broken(Invariant.NEVER_LOST, f"{event.log} was written at {event.first}, below its end {end}")
        self._logs[event.log] = event.epoch, event.last

    def _on_claimed(self, event: e.Claimed) -> None:
        epoch, end = self._logs.get(event.log, (0, -1))
        self._logs[event.log] = max(epoch, event.epoch), end

    def _on_stored(self, event: e.Stored) -> None:
        log = event.share.log
        expired, recalled = self._expired.get(log, set()), self._may_be_recalled.get(log, set())
        for_others = self._for_others(event.share)
        if not for_others.isdisjoint(event.failed):
            broken(Invariant.FOR_ITS_GROUP, f"{event.share} lists records of another group as failed")
        recalled = recalled | for_others | self._hidden.get(log, set())
        self._share(event.share).state_written(event, self._published.get(log, {}), expired, recalled)

    def _on_forgotten(self, event: e.Forgotten) -> None:
        self._share(event.share).state_forgotten()

    def _on_write_began(self, event: e.WriteBegan) -> None:
        if self._share(event.share).stored.fences(event.state_epoch, event.leader_epoch):
            self._stale_writes[event.write] = event

    def _on_write_ended(self, event: e.WriteEnded) -> None:
        write = self._stale_writes.get(event.write)
        if write is not None:
            broken(
                Invariant.EPOCHS_RISE,
                f"{write.share} was written by an old leader with leader epoch {write.leader_epoch} and "
                f"state epoch {write.state_epoch}",
            )

    def _on_state_read(self, event: e.StateRead) -> None:
        self._share(event.share).stored.check_read(event.share, event.start, event.runs)

    def _on_journal_read(self, event: e.JournalRead) -> None:
        self._share(event.share).journal_read(event.offsets, event.dropped)

    def _on_logs_read(self, event: e.LogsRead) -> None:
        for finding in verify(event.evidence):
            if not finding.kind.remark:
                broken(Invariant.VERIFIED, f"{event.share}: {finding.kind.value}: {finding.meaning}")

    def _on_lag_reported(self, event: e.LagReported) -> None:
        lag = self.lag(event.share, event.end)
        if event.lag != lag:
            broken(Invariant.LAG_AGREES, f"{event.share} reports lag {event.lag} instead of {lag}")

    # Liveness

    def _on_call_began(self, event: e.CallBegan) -> None:
        self._calls[event.call] = event

    def _on_call_ended(self, event: e.CallEnded) -> None:
        self._check_call(self._calls.pop(event.call), event.at)

    def _on_counted(self, event: e.Counted) -> None:
        if event.after > event.before:
            broken(Invariant.NOTHING_LEAKS, f"{event.what}: {event.before} before, {event.after} after")

    def _on_healed(self, event: e.Healed) -> None:
        self._healed_at = event.at
        for model in self._shares.values():
            model.healed_at = event.at

    def _on_recovered(self, event: e.Recovered) -> None:
        self._recovered_at = event.at
        for model in self._shares.values():
            model.recovered_at = event.at

    def _on_ended(self, event: e.Ended) -> None:
        for call in self._calls.values():
            self._check_call(call, event.at)
        for model, offset in self._unfinished():
            if not model.ever_delivered(offset):
                broken(Invariant.NEVER_LOST, f"{model.share} {offset} was never delivered")
            broken(Invariant.DRAINS, f"{model.share} {offset} is not finished")

    def _check_call(self, call: e.CallBegan, now: float) -> None:
        late = now - call.deadline
        if late > self._limits.grace:
            broken(Invariant.CALLS_END, f"{call.what} ended {late:.3f} s after its deadline")


_HANDLERS: Final[dict[type[e.Event], Callable[[Checker, Any], None]]] = {
    e.Published: Checker._on_published,
    e.Written: Checker._on_written,
    e.Expired: Checker._on_expired,
    e.Held: Checker._on_held,
    e.Hidden: Checker._on_hidden,
    e.Recalled: Checker._on_recalled,
    e.Addressed: Checker._on_addressed,
    e.Retried: Checker._on_retried,
    e.DeadLetter: Checker._on_dead_letter,
    e.Confirmed: Checker._on_confirmed,
    e.Returned: Checker._on_returned,
    e.Undelivered: Checker._on_undelivered,
    e.Kept: Checker._on_kept,
    e.Paused: Checker._on_paused,
    e.Resumed: Checker._on_resumed,
    e.Breaker: Checker._on_breaker,
    e.Delivered: Checker._on_delivered,
    e.Requested: Checker._on_requested,
    e.Applied: Checker._on_applied,
    e.LockLost: Checker._on_lock_lost,
    e.MemberLeft: Checker._on_member_left,
    e.Reset: Checker._on_reset,
    e.Moved: Checker._on_moved,
    e.Appended: Checker._on_appended,
    e.Claimed: Checker._on_claimed,
    e.Stored: Checker._on_stored,
    e.Forgotten: Checker._on_forgotten,
    e.WriteBegan: Checker._on_write_began,
    e.WriteEnded: Checker._on_write_ended,
    e.StateRead: Checker._on_state_read,
    e.JournalRead: Checker._on_journal_read,
    e.LogsRead: Checker._on_logs_read,
    e.LagReported: Checker._on_lag_reported,
    e.CallBegan: Checker._on_call_began,
    e.CallEnded: Checker._on_call_ended,
    e.Counted: Checker._on_counted,
    e.Healed: Checker._on_healed,
    e.Recovered: Checker._on_recovered,
    e.Ended: Checker._on_ended,
}
