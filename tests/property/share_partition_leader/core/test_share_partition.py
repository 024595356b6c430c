"""The share-partition against the naive model: writes succeed, fail or do both, and leaders stop."""

from __future__ import annotations

from itertools import cycle

import hypothesis.strategies as st
import pytest
from hypothesis import settings as profile
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import ENDED, AckBatch, AcquiredRange, AcquireMode, StateNote, StateWrite
from sharebroker_server.share_partition_leader.core.backoff import RetryBackoff, RetryCause
from sharebroker_server.share_partition_leader.core.events import (
    AcquireRequest,
    Loaded,
    LoadedState,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.runs import Transition
from tests.property.share_partition_leader.core.model import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVING,
    AVAILABLE,
    Model,
    Piece,
    Rejected,
)
from tests.support.examples import scaled
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import Store, check, compact

MEMBERS = st.sampled_from(["m1", "m2", "m3"])
KINDS = st.sampled_from([0, 1, 1, 1, 2, 2, 2, 3, 4])
LOCKS = st.sampled_from([0.0, 0.0, 10.0, 60.0, 600.0])
LIMITS = st.builds(
    SharePartitionSettings,
    delivery_count_limit=st.integers(2, 7),
    lock_duration=st.sampled_from([5.0, 30.0]),
    max_record_locks=st.integers(5, 60),
    max_runs=st.sampled_from([3, 8, 20_000, 20_000]),
    renew_enabled=st.sampled_from([True, True, False]),
    releases_count=st.sampled_from([True, True, False]),
    dead_letters=st.sampled_from([True, True, False]),
    max_archiving=st.sampled_from([4, 10_000, 10_000]),
    backoff=st.none()
    | st.builds(
        RetryBackoff,
        st.sampled_from([500, 1000, 5000]),
        st.sampled_from([1.0, 2.0]),
        st.just(8000),
        st.just(0.0),
        st.sets(st.sampled_from(RetryCause)).map(frozenset),
        st.just(86_400_000),
    ),
)


def _flat(written: StateWrite) -> list[Piece]:
    noted = ((b, b.note or StateNote(0)) for b in written.batches)
    return sorted(
        (offset, int(b.state), b.delivery_count, note.not_before_ms / 1000, *note[1:3], note.failure or ())
        for b, note in noted
        for offset in range(b.first, b.last + 1)
    )


def _is_retried(transition: Transition) -> bool:
    unanswered = bool(transition.locks) and transition.reply is None
    return not transition.runs and (bool(transition.batches) or unanswered)


class SharePartitionMachine(RuleBasedStateMachine):
    """Both receive every call; all their output must be equal, and no guarantee may break.

    If `ordered`, there is one write at a time of all that waits, as of a leader.
    """

    @initialize(
        limits=LIMITS,
        start=st.integers(0, 30),
        layout=st.lists(st.tuples(st.sampled_from([0, 0, 0, 2]), st.integers(1, 12)), min_size=1, max_size=5),
        ordered=st.booleans(),
    )
    def open(
        self, limits: SharePartitionSettings, start: int, layout: list[tuple[int, int]], ordered: bool
    ) -> None:
        self.ordered = ordered
        self.log: list[tuple[int, int]] = []
        base = 0
        for gap, size in cycle(layout):
            self.log.append((base + gap, base + gap + size - 1))
            base += gap + size
            if base > 4000:
                break
        self.store = Store(start)
        self.now = 0.0
        self.epoch = 1
        self.ended: set[int] = set()
        self._lead(limits, LoadedState(3, 1, start))

    def _lead(self, limits: SharePartitionSettings, loaded: LoadedState) -> None:
        self.share = SteppedPartition(limits, loaded)
        self.model = Model.load(limits, loaded)
        check(self.share)
        loaded_effects = self.share.handle(Loaded(), self.now)
        self.model.end_waits(self.now)
        self.number = 0
        self.numbers: dict[Transition, int] = {}
        self.waiting: list[Transition] = []
        self.sent: list[tuple[list[Transition], bool]] = []
        self.handed: list[tuple[str, AcquiredRange]] = []
        self.unsure: set[int] = set()
        archived = self.model.configure(0, limits)
        self._queue(next((each for each in loaded_effects.transitions if each.letters), None), archived)

    def _queue(self, transition: Transition | None, expected: bool) -> None:
        assert (transition is not None) is expected
        if transition is not None:
            self.numbers[transition] = self.number
            self.waiting.append(transition)

    @rule(
        member=MEMBERS,
        most=st.integers(1, 40),
        size=st.integers(1, 20),
        mode=st.sampled_from(AcquireMode),
        depth=st.integers(1, 4),
        lock=LOCKS,
        aborted=st.one_of(st.none(), st.tuples(st.integers(0, 10), st.integers(0, 10))),
    )
    def fetch(
        self,
        member: str,
        most: int,
        size: int,
        mode: AcquireMode,
        depth: int,
        lock: float,
        aborted: tuple[int, int] | None,
    ) -> None:
        offset = self.share.next_fetch_offset()
        read = [piece for piece in self.log if piece[1] >= offset][:depth]
        request = AcquireRequest(member, most, size, mode, lock=lock)
        self.model.runs = len(self.share.in_flight.runs)
        self.number += 1
        acquired, stored = self.share.acquire_durably(request, offset, read, self.now)
        expected = self.model.acquire(self.number, request, offset, read, self.now)
        self._queue(stored, bool(self.model.locks[self.number]))
        assert [(x, a.delivery_count) for a in acquired for x in range(a.first, a.last + 1)] == expected
        assert all(a.token == self.model.token for a in acquired)
        if mode is AcquireMode.RECORD_LIMIT:
            assert len(expected) <= most
        assert self.ended.isdisjoint(x for x, _ in expected)
        if acquired and aborted is not None:
            first = acquired[0].first + aborted[0]
            gone = range(first, first + aborted[1] + 1)
            acquired = self.share.archive_aborted(acquired, [(gone[0], gone[-1])])
            self.model.archive((x for x, _ in expected if x in gone), {ACQUIRED})
        self.handed += [(member, a) for a in acquired]

    @precondition(lambda self: self.handed)
    @rule(kind=KINDS, back=st.integers(0, 4))
    def acknowledge_a_whole_range(self, kind: int, back: int) -> None:
        member, piece = self.handed[max(0, len(self.handed) - 1 - back)]
        self._acknowledge(member, [AckBatch(piece.first, piece.last, (kind,), piece.token)])

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), kind=st.sampled_from([1, 1, 2, 3]), back=st.integers(0, 3))
    def acknowledge_one_by_one(self, data: st.DataObject, kind: int, back: int) -> None:
        """In any order; the first record of the range stays held, and often others as well."""
        member, piece = self.handed[max(0, len(self.handed) - 1 - back)]
        offsets = st.integers(piece.first + 1, max(piece.first + 1, piece.last))
        for offset in data.draw(st.lists(offsets, unique=True, max_size=12)):
            self._acknowledge(member, [AckBatch(offset, offset, (kind,), piece.token)])

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), parts=st.integers(1, 3), with_token=st.booleans())
    def acknowledge_what_was_handed_out(self, data: st.DataObject, parts: int, with_token: bool) -> None:
        newest = len(self.handed) - 1
        index = data.draw(st.integers(max(0, newest - 6), newest))
        member, piece = self.handed[index]
        first, batches = piece.first, []
        for _ in range(parts):
            if first > piece.last:
                break
            first = data.draw(st.integers(first, piece.last))
            last = data.draw(st.integers(first, min(piece.last, first + 12)))
            each = data.draw(st.booleans())
            types = data.draw(st.lists(KINDS, min_size=last - first + 1, max_size=last - first + 1))
            batches.append(
                AckBatch(first, last, types if each else types[:1], piece.token if with_token else None)
            )
            first = last + 1
        self._acknowledge(member, batches)

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), delay=st.sampled_from([0.0, 0.5, 5.0, 30.0]), blameless=st.booleans())
    def give_back_for_later(self, data: st.DataObject, delay: float, blameless: bool) -> None:
        newest = len(self.handed) - 1
        member, piece = self.handed[data.draw(st.integers(max(0, newest - 3), newest))]
        first = data.draw(st.integers(piece.first, piece.last))
        last = data.draw(st.integers(first, piece.last))
        self._acknowledge(member, [AckBatch(first, last, (2,), piece.token)], delay, blameless=blameless)

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), everything=st.booleans())
    def give_back_unseen(self, data: st.DataObject, everything: bool) -> None:
        newest = len(self.handed) - 1
        member, piece = self.handed[data.draw(st.integers(max(0, newest - 3), newest))]
        self.number += 1
        if everything:
            self._queue(self.share.undo_all(member), self.model.undo_all(self.number, member))
            return
        first = data.draw(st.integers(piece.first, piece.last))
        batches = [AckBatch(first, data.draw(st.integers(first, piece.last)), (2,), piece.token)]
        try:
            expected = self.model.undo_acquire(self.number, member, batches)
        except Rejected:
            with pytest.raises(KafkaError, match="INVALID_RECORD_STATE"):
                self.share.undo_acquire(member, batches)
        else:
            self._queue(self.share.undo_acquire(member, batches), expected)

    @precondition(lambda self: self.handed)
    @rule(data=st.data(), lock=LOCKS)
    def renew(self, data: st.DataObject, lock: float) -> None:
        newest = len(self.handed) - 1
        member, piece = self.handed[data.draw(st.integers(max(0, newest - 3), newest))]
        first = data.draw(st.integers(piece.first, piece.last))
        last = data.draw(st.integers(first, piece.last))
        self._acknowledge(member, [AckBatch(first, last, (4,), piece.token)], lock=lock)

    @rule(
        member=MEMBERS,
        kind=st.sampled_from([1, 1, 1, 2, 3, 4, 4]),
        back=st.integers(0, 5),
        sizes=st.lists(st.integers(1, 15), min_size=1, max_size=3),
        short=st.integers(0, 40),
    )
    def settle(self, member: str, kind: int, back: int, sizes: list[int], short: int) -> None:
        first, batches = max(0, self.share.start_offset - back), []
        for size in sizes:
            batches.append(AckBatch(first, first + size - 1, (kind,)))
            first += size + back
        end = self.share.end_offset + short
        self.number += 1
        reconciled = self.share.reconcile(member, batches, end, self.now)
        expected, left = self.model.reconcile(self.number, member, batches, end, self.now)
        self._queue(reconciled.transition, expected)
        assert [
            (x, one.reason.name) for one in reconciled.left for x in range(one.first, one.last + 1)
        ] == left

    def _acknowledge_anything(self, member: str, data: st.DataObject) -> None:
        near = st.integers(max(0, self.share.start_offset - 5), self.share.end_offset + 5)
        edges = sorted(data.draw(st.lists(near, min_size=2, max_size=4).filter(lambda x: len(x) % 2 == 0)))
        kind = data.draw(KINDS)
        self._acknowledge(
            member, [AckBatch(a, b, (kind,)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        )

    def _acknowledge(
        self,
        member: str,
        batches: list[AckBatch],
        delay: float | None = None,
        lock: float = 0.0,
        *,
        blameless: bool = False,
    ) -> None:
        self.number += 1
        try:
            expected = self.model.acknowledge(
                self.number, member, batches, self.now, delay, lock, blameless=blameless
            )
        except Rejected:
            with pytest.raises(KafkaError, match=r"INVALID_RE(CORD_STATE|QUEST)"):
                self.share.acknowledge(member, batches, self.now, delay, lock, blameless=blameless)
        else:
            transition = self.share.acknowledge(member, batches, self.now, delay, lock, blameless=blameless)
            self._queue(transition, expected)

    def _release(self, member: str) -> None:
        self.number += 1
        released = self.share.release_member(member, now=self.now)
        self._queue(released, self.model.release(self.number, member, self.now))

    @rule(passed=st.sampled_from([0.0, 1.0, 5.0, 20.0, 40.0, 100.0]))
    def expire(self, passed: float) -> None:
        self.now += passed
        expired = self.share.expire(self.now)
        flat = [
            (x.member, x.token, offset, x.delivery_count, int(x.state))
            for x in expired.lost
            for offset in range(x.first, x.last + 1)
        ]
        if expired.transition is not None:
            self.number += 1
        assert flat == self.model.expire(self.number if flat else -1, self.now)
        self._queue(expired.transition, bool(flat))
        assert (self.share.next_deadline() or self.now + 1) > self.now

    @precondition(lambda self: self.waiting and not (self.ordered and self.sent))
    @rule(
        first=st.integers(0, 3),
        number=st.integers(1, 3),
        outcome=st.sampled_from(["durable", "durable", "durable", "lost", "unknown"]),
    )
    def send(self, first: int, number: int, outcome: str) -> None:
        first %= len(self.waiting)
        transitions = self.waiting if self.ordered else self.waiting[first : first + number]
        numbers = [self.numbers[transition] for transition in transitions]
        self.waiting = [transition for transition in self.waiting if transition not in transitions]
        written = self.share.write(transitions)
        expected = self.model.write(numbers)
        assert (written.start_offset, written.delivery_complete_count, _flat(written)) == expected
        if outcome != "lost":
            self._apply(written, numbers)
        if outcome == "durable" and self.ordered:
            self._check_stored_locks(written)
        if outcome == "unknown":
            self.unsure.update(offset for b in written.batches for offset in range(b.first, b.last + 1))
        self.sent.append((transitions, outcome == "durable"))

    def _check_stored_locks(self, written: StateWrite) -> None:
        """A lock that was written is stored, whatever earlier writes stored, unless the record ended."""
        for batch in written.batches:
            if batch.note is not None and batch.note.lock_token:
                for offset in range(batch.first, batch.last + 1):
                    assert self.store.ended(offset) or self.store.notes[offset] == batch.note

    def _apply(self, written: StateWrite, numbers: list[int]) -> None:
        """The store finishes only records that are finished here, or will be when this write succeeds."""
        before = {x for x in range(self.model.after_end) if self.store.finished(x)}
        self.store.apply(written)
        for offset, record in self.model.records.items():
            by_this = record.change is not None and record.change[0] in numbers and record.change[1] >= 2
            if self.store.finished(offset) and offset not in before:
                assert record.finished or by_this

    @precondition(lambda self: self.sent)
    @rule(index=st.integers(0, 9))
    def answer(self, index: int) -> None:
        index %= len(self.sent)
        transitions, durable = self.sent.pop(index)
        numbers = [self.numbers[transition] for transition in transitions]
        finishing = [
            x
            for x, r in self.model.records.items()
            if r.change and r.change[0] in numbers and r.change[1] >= 2
        ]
        released = [
            x
            for x, r in self.model.records.items()
            if r.change and r.change[0] in numbers and r.change[1] == 0 and not r.later
        ]
        start = self.share.start_offset
        completed = self.share.complete(transitions, None if durable else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.model.complete(numbers, durable)
        if not durable:
            self.waiting += [transition for transition in transitions if _is_retried(transition)]
            rejected = {lock for number in numbers for lock in self.model.locks.get(number, ())}
            self.unsure.update(x for x, record in self.model.records.items() if record.lock in rejected)
        if durable:
            self.ended.update(finishing)
            assert completed.acknowledged + completed.archived == len(finishing)
            assert completed.released == len(released)
            assert completed.fetchable is bool(released or self.share.start_offset > start)

    @precondition(lambda self: self.model.archiving)
    @rule(limit=st.integers(1, 30), back=st.integers(0, 9), beyond=st.integers(0, 3))
    def write_letters(self, limit: int, back: int, beyond: int) -> None:
        """The letters of some records were written; ranges may repeat and contain other records."""
        ranges = [(one.first, one.last + beyond) for one in self.share.archiving(limit)[-1 - back :]]
        offsets = {x for first, last in ranges for x in range(first, last + 1)}
        unknown = {x for x in offsets if x in self.model.records and not self.model.records[x].known}
        if not unknown:
            self.number += 1
            queued = self.share.write_letters([*ranges, *ranges[:1]], self.now)
            self._queue(queued, self.model.letters_written(self.number, offsets))

    @rule(trouble=st.integers(0, 9), member=MEMBERS, data=st.data())
    def trouble(self, trouble: int, member: str, data: st.DataObject) -> None:
        """Injects rare events; they are one rule, so that they stay rare."""
        if trouble < 3:
            self._acknowledge_anything(member, data)
        elif trouble < 5:
            self._release(member)
        elif trouble == 5:
            self._move_log_start(data.draw(st.integers(-2, 25)))
        elif trouble == 6:
            self._compact(data.draw(st.integers(0, 30)), data.draw(st.integers(1, 5)))
        elif trouble == 7:
            settings = data.draw(LIMITS)
            self.number += 1
            archived = self.share.configure(settings, self.now)
            self._queue(archived, self.model.configure(self.number, settings))
        elif trouble == 8:
            self._change_leader()
        elif trouble == 9:
            self.number += 1
            renewed = self.share.renew_all(member, self.now)
            self._queue(renewed, self.model.renew_all(self.number, member, self.now))

    def _move_log_start(self, by: int) -> None:
        to, before = max(0, self.share.start_offset + by), self.model.start
        self.model.move_log_start(to)
        assert self.share.move_log_start(to) is (self.model.start > before)

    def _compact(self, at: int, size: int) -> None:
        first = self.share.start_offset + at
        compact(self.share, first, first + size - 1)
        self.model.archive(range(first, first + size), {AVAILABLE})

    def _change_leader(self) -> None:
        self.epoch += 1
        self._lead(self.share.settings, self.store.loaded(self.epoch))

    @invariant()
    def both_show_the_same(self) -> None:
        if not hasattr(self, "share"):
            return
        share, model = self.share, self.model
        check(share)
        seen = {
            offset: (
                int(run.state),
                run.delivery_count,
                run.lock.member if run.lock else "",
                run.lock.token if run.lock else 0,
                (self.numbers[run.pending], int(run.target)) if run.pending else None,
                run.batch[:2] if run.batch and run.state not in ENDED else None,
                run.not_before_ms / 1000,
                (run.failure or ()) if run.state == ARCHIVING else (),
                run.stored,
            )
            for run in share.in_flight.runs
            for offset in range(run.first, run.last + 1)
        }
        assert seen == {
            offset: (
                r.state,
                r.count,
                r.member,
                r.token,
                r.change,
                None if r.state >= ACKNOWLEDGED else r.unit,
                r.not_before,
                r.failure if r.state == ARCHIVING else (),
                r.known,
            )
            for offset, r in model.records.items()
        }
        assert (share.start_offset, share.end_offset) == (model.start, model.end)
        in_flight = share.in_flight
        assert (in_flight.locked, in_flight.ready) == (model.locked, model.ready)
        assert (in_flight.waiting, in_flight.archiving) == (model.waiting, model.archiving)
        requested = [
            (x, one.delivery_count, (one.disposition, one.time_ms, one.member_id, one.reason))
            for one in share.archiving(5)
            for x in range(one.first, one.last + 1)
        ]
        assert requested == model.requested_letters(5)
        assert share.delivery_complete_count == model.complete_count
        assert share.next_fetch_offset() == model.next_fetch_offset()
        model.runs = len(share.in_flight.runs)
        assert (share.acquirable_offset() is not None) == model.can_acquire()
        for member in ("m1", "m2"):
            held = [
                (x, run.delivery_count)
                for run in share.in_flight.held_by(member)
                for x in range(run.first, run.last + 1)
            ]
            assert held == [
                (offset, r.count)
                for offset, r in sorted(model.records.items())
                if r.state == ACQUIRED and r.member == member and not r.change
            ]

    @invariant()
    def a_new_leader_loads_locks_and_waits(self) -> None:
        """A durable lock keeps its holder, token, deadline and count, a record that waits its time.

        An archiving record keeps its count and how it failed.

        Every other record can be acquired at once. Nothing is known of a failed write that may be stored, and
        of a failed renewal.
        """
        if not hasattr(self, "share") or not self.ordered or self.waiting or self.sent:
            return
        loaded = Model.load(self.share.settings, self.store.loaded(self.epoch)).records
        for offset, record in self.model.records.items():
            if record.finished or offset in self.unsure or offset not in loaded:
                continue
            after = loaded[offset]
            if record.state == ARCHIVING:
                described = (offset, after.state, after.count, after.failure)
                assert described == (offset, ARCHIVING, record.count, record.failure)
            elif record.durable:
                held = (offset, after.state, after.member, after.token, after.deadline)
                assert held == (offset, ACQUIRED, record.member, record.token, record.deadline)
                assert after.count in (record.count, record.count + record.counted)
            elif record.not_before:
                assert (after.state, after.not_before) == (AVAILABLE, record.not_before)
            else:
                assert after.state == AVAILABLE
                assert after.not_before <= self.now

    @invariant()
    def holders_are_those_of_the_records(self) -> None:
        if hasattr(self, "share"):
            holders = {record.member for record in self.model.records.values() if record.state == ACQUIRED}
            assert {member for member in ("m1", "m2", "m3") if self.share.in_flight.holds(member)} == holders

    @invariant()
    def confirmed_records_are_not_delivered_again(self) -> None:
        if hasattr(self, "share"):
            assert all(self.store.ended(offset) for offset in self.ended)


TestSharePartition = SharePartitionMachine.TestCase
TestSharePartition.settings = profile(max_examples=scaled(100), stateful_step_count=50, deadline=None)
