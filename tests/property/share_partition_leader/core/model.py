"""A share-partition with one object per record, which scans all of them for every request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sharebroker_protocol.model import AckBatch, AcquireMode, StateNote
from sharebroker_server.share_partition_leader.core.events import (
    AcquireRequest,
    LoadedState,
    SharePartitionSettings,
)

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = range(5)
AFTER_ACK = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}
REJECT, RENEW = 3, 4
REJECTED, EXHAUSTED = 1, 2
DURABLE_LOCK = 60.0

Unit = tuple[int, int] | None
Failure = tuple[int, int, str, str] | tuple[()]
"""Disposition, time in ms, member id and reason; empty: none."""
Piece = tuple[int, int, int, float, str, int, Failure]
"""Offset, state, delivery count, time, holder, token and failure, as they are written."""


class Rejected(Exception):
    """The request changes nothing."""


@dataclass
class Record:
    """One record in flight; `change` is the pending transition and the state it leads to.

    Records with the same `lock` have one lock. That a record is ARCHIVING is `known` once it is durable.
    """

    state: int
    count: int
    unit: Unit
    member: str = ""
    token: int = 0
    deadline: float = 0.0
    lock: int = 0
    durable: bool = False
    change: tuple[int, int] | None = None
    later: float = 0.0
    returned: bool = False
    not_before: float = 0.0
    failure: Failure = ()
    known: bool = True
    counted: bool = False

    @property
    def before(self) -> int:
        """The delivery count without the present delivery; one whose release may be stored is counted."""
        return self.count - (not self.counted)

    @property
    def finished(self) -> bool:
        return self.state in (ACKNOWLEDGED, ARCHIVED)

    @property
    def ready(self) -> bool:
        return self.state == AVAILABLE and not self.not_before

    def put(self, state: int) -> None:
        self.state, self.member, self.token, self.deadline, self.change = state, "", 0, 0.0, None
        self.not_before = 0.0
        self.lock, self.durable, self.counted = 0, False, False
        if state != ARCHIVING:
            self.failure, self.known = (), True

    def stored(self, numbers: Sequence[int]) -> tuple[int, int, float, str, int, Failure]:
        """State, delivery count, time, holder, token and failure that are stored once transitions are."""
        if self.change and self.change[0] in numbers:
            count = self.before if self.returned else self.count
            return self.change[1], count, self.later, "", 0, self.failure
        if self.state != ACQUIRED:
            return self.state, self.count, self.not_before, "", 0, self.failure
        note = (self.deadline, self.member, self.token) if self.durable else (0.0, "", 0)
        return AVAILABLE, self.before, *note, ()


@dataclass
class Model:
    """State and rules; `written` has what the transitions write, `locks` the locks that they store.

    The transitions of `timeouts` may be written late.
    """

    settings: SharePartitionSettings
    records: dict[int, Record] = field(default_factory=dict)
    after_end: int = 0
    token: int = 0
    runs: int = 0
    written: dict[int, list[Piece]] = field(default_factory=dict)
    locks: dict[int, set[int]] = field(default_factory=dict)
    timeouts: set[int] = field(default_factory=set)
    last_lock: int = 0
    failures: dict[int, Failure] = field(default_factory=dict)

    @classmethod
    def load(cls, settings: SharePartitionSettings, loaded: LoadedState) -> Model:
        model = cls(settings, after_end=loaded.start_offset, token=loaded.leader_epoch << 32)
        notes: dict[StateNote, int] = {}
        for piece in loaded.batches:
            for offset in range(model.after_end, piece.first):
                model.records[offset] = Record(AVAILABLE, 0, None)
            for offset in range(piece.first, piece.last + 1):
                unit = (piece.first, piece.last)
                record = model.records[offset] = Record(int(piece.state), piece.delivery_count, unit)
                if piece.note and piece.note.lock_token:
                    record.lock = notes.setdefault(piece.note, len(notes) + 1)
                    record.deadline = piece.note.not_before_ms / 1000
                    record.member, record.token = piece.note.holder, piece.note.lock_token
                    record.state, record.count, record.durable = ACQUIRED, record.count + 1, True
                elif piece.note:
                    record.not_before = piece.note.not_before_ms / 1000
                    record.failure = piece.note.failure or ()
            model.after_end = piece.last + 1
        model.last_lock = len(notes)
        model.advance()
        return model

    # --- start and end offset

    @property
    def start(self) -> int:
        return min(self.records, default=self.after_end)

    @property
    def end(self) -> int:
        return self.after_end - 1 if self.records else self.after_end

    @property
    def locked(self) -> int:
        return sum(record.state == ACQUIRED for record in self.records.values())

    @property
    def ready(self) -> int:
        return sum(record.ready for record in self.records.values())

    @property
    def waiting(self) -> int:
        return sum(record.not_before > 0 for record in self.records.values())

    @property
    def archiving(self) -> int:
        return sum(record.state == ARCHIVING for record in self.records.values())

    @property
    def most(self) -> int:
        """How many more records may be locked."""
        if self.archiving >= self.settings.max_archiving:
            return 0
        return self.settings.max_record_locks - self.locked

    @property
    def complete_count(self) -> int:
        return sum(record.finished for record in self.records.values())

    def next_fetch_offset(self) -> int:
        free = [offset for offset, record in self.records.items() if record.ready]
        return min(free, default=self.after_end)

    def can_acquire(self) -> bool:
        return self.most > 0 and (self.ready > 0 or self.runs < self.settings.max_runs)

    def advance(self) -> None:
        while self.records and self.records[self.start].finished:
            del self.records[self.start]

    # --- acquisition

    def acquire(
        self,
        number: int,
        request: AcquireRequest,
        fetch_offset: int,
        log: Sequence[tuple[int, int]],
        now: float,
    ) -> list[tuple[int, int]]:
        """Returns acquired (offset, delivery count); a durable lock has to be persisted."""
        self.last_lock += 1
        acquired = self._acquire(request, fetch_offset, log, now)
        self.written[number] = []
        self.locks[number] = {self.last_lock} if acquired and request.lock >= DURABLE_LOCK else set()
        return acquired

    def _acquire(
        self, request: AcquireRequest, fetch_offset: int, log: Sequence[tuple[int, int]], now: float
    ) -> list[tuple[int, int]]:
        if not log:
            return []
        self.archive(range(fetch_offset, log[0][0]), {AVAILABLE})
        base, last = max(log[0][0], self.start), log[-1][1]
        room = min(request.max_records, self.most)
        if room <= 0 or last < base:
            return []
        self.token += 1
        taken: list[int] = []
        self._call = (request, room, log, now, taken)
        redelivered = self._walk(base, last)
        if len(taken) >= room or self.most <= self.ready or self.runs >= self.settings.max_runs:
            redelivered = False
        if redelivered and last >= self.after_end:
            first = max(base, self.after_end)
            first = max(first, next(start for start, end in log if end >= first))
            last = self._before_deferred(first, last)
            if first <= last:
                self._first_attempt(first, last)
        return [(offset, self.records[offset].count) for offset in taken]

    def _walk(self, base: int, last: int) -> bool:
        request, room, _, _, taken = self._call
        todo = sorted(offset for offset in self.records if base <= offset <= last)
        while todo and len(taken) < room:
            offset, record = todo[0], self.records[todo[0]]
            if not record.ready:
                todo = todo[1:]
            elif record.unit is None:
                upto = offset
                while upto < last and self._is_hole(upto + 1):
                    upto += 1
                upto = self._first_attempt(offset, upto)
                todo = [x for x in todo if x > upto]
            else:
                free = [x for x in todo if self.records[x].unit == record.unit and self.records[x].ready]
                limited = request.mode is AcquireMode.RECORD_LIMIT
                quota = room - len(taken) if limited else self.most
                if max(self.records[x].count for x in free) >= self.settings.throttle_limit:
                    if not taken:
                        self._isolated(free, record.unit, quota)
                    return False
                for x in free[:quota]:
                    self._acquire_batch(x)
                todo = [x for x in todo if self.records[x].unit != record.unit]
        return True

    def _is_hole(self, offset: int) -> bool:
        record = self.records.get(offset)
        return record is not None and record.unit is None and record.ready

    def _isolated(self, free: list[int], unit: tuple[int, int], quota: int) -> None:
        taken, limit, throttle = (
            self._call[4],
            self.settings.delivery_count_limit,
            self.settings.throttle_limit,
        )
        portion = None
        for offset in free:
            count = self.records[offset].count
            last_attempt = limit > 2 and count >= limit - 1
            if last_attempt and taken:
                return
            if not last_attempt and count >= throttle and portion is None:
                portion = max(1, (unit[1] - unit[0] + 1) // 2 ** (count - throttle + 1))
            if len(taken) >= min(quota, portion or quota):
                return
            self._acquire_batch(offset)
            if last_attempt:
                return

    def _acquire_batch(self, offset: int) -> None:
        request, _, _, now, taken = self._call
        record = self.records[offset]
        record.state, record.count = ACQUIRED, record.count + 1
        record.member, record.token = request.member, self.token
        record.deadline = now + (request.lock or self.settings.lock_duration)
        record.lock, record.durable = self.last_lock, request.lock >= DURABLE_LOCK
        taken.append(offset)

    def _before_deferred(self, first: int, last: int) -> int:
        """A log batch that the soft limit reaches waits for room that pending changes will make."""
        request, room, log, _, taken = self._call
        most = self.most - self.ready
        ending = sum(r.change is not None and r.change[1] != AVAILABLE for r in self.records.values())
        for base, end in log:
            cut = base <= first + most - 1 < end
            reached = base <= first + min(room - len(taken), most) - 1
            if cut and reached and end <= first + most - 1 + ending:
                return base - 1 if request.mode is AcquireMode.BATCH_OPTIMIZED else last
        return last

    def _first_attempt(self, first: int, last: int) -> int:
        """Adds first..last, as far as the limits permit; returns the last added offset."""
        request, room, log, _, taken = self._call
        most = self.most if first < self.after_end else self.most - self.ready
        wanted = min(room - len(taken), most)
        if wanted < last - first + 1:
            target = first + wanted - 1
            end = [upto for base, upto in log if base <= target][-1]
            if request.mode is AcquireMode.RECORD_LIMIT or end < first:
                end = target
            last = min(last, end, first + most - 1)
        starts = [first]
        if request.mode is AcquireMode.BATCH_OPTIMIZED and last - first + 1 > request.batch_size:
            for base, _ in log:
                if base <= last and base - starts[-1] >= request.batch_size:
                    starts.append(base)
        for start, following in zip(starts, [*starts[1:], last + 1], strict=True):
            for offset in range(start, following):
                self.records[offset] = Record(AVAILABLE, 0, (start, following - 1))
                self.after_end = max(self.after_end, offset + 1)
                self._acquire_batch(offset)
        return last

    # --- requests of members

    def acknowledge(
        self,
        number: int,
        member: str,
        batches: Sequence[AckBatch],
        now: float,
        delay: float | None = None,
        lock: float = 0.0,
        *,
        blameless: bool = False,
    ) -> bool:
        """Returns whether there is anything to persist. Raises Rejected."""
        blameless |= not self.settings.releases_count
        changes: dict[int, int] = {}
        renewed: set[int] = set()
        for batch in batches:
            if batch.token is not None and batch.first < self.start:
                raise Rejected
            if batch.last < self.start:
                continue
            if batch.first >= self.start and not self.records:
                raise Rejected
            if batch.last not in self.records:
                raise Rejected
            for offset in range(max(batch.first, self.start), batch.last + 1):
                record = self.records.get(offset)
                if record is None:
                    continue
                if record.state != ACQUIRED or record.change or record.member != member or offset in changes:
                    raise Rejected
                if batch.token is not None and batch.token != record.token:
                    raise Rejected
                kind = batch.types[offset - batch.first if len(batch.types) > 1 else 0]
                if kind != RENEW:
                    changes[offset] = self._after_ack(offset, kind, blameless, now)
                elif self.settings.renew_enabled:
                    renewed.add(offset)
                else:
                    raise Rejected
        changed = self._start_transition(number, changes, "release", now, delay, blameless)
        return self._renew(number, renewed, now, lock) or changed

    def _renew(self, number: int, offsets: Iterable[int], now: float, lock: float = 0.0) -> bool:
        """Replaces locks by their successors; returns whether one has to be persisted."""
        durable, successors = lock >= DURABLE_LOCK, dict[int, int]()
        stored = self.locks[number] = set()
        for offset in sorted(offsets):
            record = self.records[offset]
            if record.lock not in successors:
                self.last_lock += 1
                successors[record.lock] = self.last_lock
            if durable or record.durable:
                stored.add(successors[record.lock])
            record.lock, record.durable = successors[record.lock], durable
            record.deadline = now + (lock or self.settings.lock_duration)
        return bool(stored)

    def undo_acquire(self, number: int, member: str, batches: Sequence[AckBatch]) -> bool:
        """Like `acknowledge`, and the delivery does not count."""
        self.acknowledge(number, member, batches, 0.0)
        undone = (x for x, record in self.records.items() if record.change and record.change[0] == number)
        return self._undo(number, list(undone))

    def undo_all(self, number: int, member: str) -> bool:
        held = ((x, r) for x, r in self.records.items() if r.state == ACQUIRED and r.member == member)
        return self._undo(number, [x for x, record in held if not record.change])

    def _undo(self, number: int, offsets: Iterable[int]) -> bool:
        """Returns whether there is anything to persist: the end of durable locks."""
        pieces = self.written[number] = []
        for offset in offsets:
            record = self.records[offset]
            if record.durable:
                record.change, record.later, record.returned = (number, AVAILABLE), 0.0, True
                pieces.append((offset, AVAILABLE, record.before, 0.0, "", 0, ()))
            else:
                record.count = record.before
                record.put(AVAILABLE)
        return bool(pieces)

    def reconcile(
        self, number: int, member: str, batches: Sequence[AckBatch], end: int, now: float
    ) -> tuple[bool, list[tuple[int, str]]]:
        """Returns whether there is anything to persist, and (offset, reason) of the rest.

        Archived records are persisted again, since they may be archived in memory alone.
        """
        self.token += 1
        changes: dict[int, int] = {}
        left: list[tuple[int, str]] = []
        archived: list[Piece] = []
        renewed: list[int] = []
        self.last_lock += 1
        for batch in batches:
            left += [(x, "FINISHED") for x in range(batch.first, min(batch.last + 1, self.start))]
            first, last = max(batch.first, self.start), min(batch.last, end - 1)
            left += [(x, "PAST_END") for x in range(max(first, end), batch.last + 1)]
            if first > last:
                continue
            for offset in range(self.after_end, last + 1):
                self.records[offset] = Record(AVAILABLE, 0, None)
            self.after_end = max(self.after_end, last + 1)
            for offset in range(first, last + 1):
                record = self.records.get(offset)
                if record is not None and record.state in (ARCHIVING, ARCHIVED):
                    archived.append((offset, *record.stored(())))
                if batch.types[0] == RENEW and self._is_renewable(offset, member, changes):
                    renewed.append(offset)
                reason = self._settle_one(offset, last, member, batch.types[0], changes, now)
                left += [(offset, reason)] if reason else []
        blameless = not self.settings.releases_count
        changed = self._start_transition(number, changes, "release", now, None, blameless)
        self.written[number] += archived
        stored = self._renew(number, renewed, now)
        return changed or stored or bool(archived), left

    def _is_renewable(self, offset: int, member: str, changes: dict[int, int]) -> bool:
        record = self.records.get(offset)
        if record is None or record.change or offset in changes or not self.settings.renew_enabled:
            return False
        return record.state == ACQUIRED and record.member == member

    def _settle_one(
        self, offset: int, last: int, member: str, kind: int, changes: dict[int, int], now: float
    ) -> str:
        record = self.records.get(offset)
        if record is None:
            return ""
        if record.state >= ACKNOWLEDGED:
            return "FINISHED"
        if record.not_before:
            return "TAKEN"
        if record.state == ACQUIRED and record.member != member:
            return "TAKEN"
        if record.change or offset in changes:
            return "UNDER_WAY"
        if record.state == AVAILABLE:
            if kind == 2:
                return ""
            self._claim(offset, last, member, now)
        if kind != RENEW:
            blameless = not self.settings.releases_count
            changes[offset] = self._after_ack(offset, kind, blameless, now)
        return ""

    def _claim(self, offset: int, last: int, member: str, now: float) -> None:
        record = self.records[offset]
        if record.unit is None:
            upto = offset
            while upto < last and self._is_hole(upto + 1):
                upto += 1
            for hole in range(offset, upto + 1):
                self.records[hole].unit = (offset, upto)
        record.state, record.count = ACQUIRED, record.count + 1
        record.member, record.token = member, self.token
        record.deadline = now + self.settings.lock_duration
        record.lock, record.durable = self.last_lock, False

    def renew_all(self, number: int, member: str, now: float) -> bool:
        self.written[number] = []
        held = [x for x, r in self.records.items() if r.state == ACQUIRED and r.member == member]
        return self._renew(number, held if self.settings.renew_enabled else [], now)

    def release(self, number: int, member: str, now: float) -> bool:
        held = {
            offset: self._after(record)
            for offset, record in self.records.items()
            if record.state == ACQUIRED and not record.change and record.member == member
        }
        return self._start_transition(number, held, "session", now)

    @property
    def _failed(self) -> int:
        return ARCHIVING if self.settings.dead_letters else ARCHIVED

    def _after(self, record: Record, blameless: bool = False) -> int:
        again = blameless or record.count < self.settings.delivery_count_limit
        return AVAILABLE if again else self._failed

    def _after_ack(self, offset: int, kind: int, blameless: bool, now: float) -> int:
        record = self.records[offset]
        if kind == REJECT:
            self._fail(offset, REJECTED, now)
            return self._failed
        return self._after(record, blameless) if kind == 2 else AFTER_ACK[kind]

    def _fail(self, offset: int, disposition: int, now: float) -> None:
        member_id = self.records[offset].member.partition("@")[2]
        self.failures[offset] = (disposition, int(now * 1000), member_id, "")

    def _later(self, count: int, cause: str, now: float, delay: float | None = None) -> float:
        """When a record is delivered again; 0: at once."""
        backoff = self.settings.backoff
        if delay is None:
            if backoff is None or cause not in backoff.on:
                return 0.0
            delay = min(backoff.first_ms * backoff.multiplier ** (count - 1), backoff.max_ms) / 1000
        return now + delay if delay else 0.0

    def _start_transition(
        self,
        number: int,
        changes: dict[int, int],
        cause: str,
        now: float,
        delay: float | None = None,
        blameless: bool = False,
    ) -> bool:
        self.written[number] = []
        for offset, state in changes.items():
            record = self.records[offset]
            record.change = (number, state)
            if state == ARCHIVING:
                if offset not in self.failures:
                    self._fail(offset, EXHAUSTED, now)
                record.failure = self.failures[offset]
            record.later = self._later(record.count, cause, now, delay) if state == AVAILABLE else 0.0
            record.returned = blameless and state == AVAILABLE
            self.written[number].append((offset, *record.stored([number])))
        self.failures.clear()
        return bool(changes)

    # --- time and the log

    def expire(self, number: int, now: float) -> list[tuple[str, int, int, int, int]]:
        """Returns lost (member, token, offset, delivery count, state)."""
        self.end_waits(now)
        lost = []
        for offset, record in sorted(self.records.items()):
            if record.state == ACQUIRED and not record.change and record.deadline <= now:
                lost.append((record.member, record.token, offset, record.count, self._after(record)))
                self._fail(offset, EXHAUSTED, now)
                record.put(self._after(record))
                if record.state == ARCHIVING:
                    record.failure, record.known = self.failures[offset], False
                if record.state == AVAILABLE:
                    record.not_before = self._later(record.count, "timeout", now)
        self.written[number] = [
            (offset, state, count, self.records[offset].not_before, "", 0, self.records[offset].failure)
            for _, _, offset, count, state in lost
        ]
        self.failures.clear()
        self.timeouts.add(number)
        self.advance()
        return lost

    def end_waits(self, now: float) -> None:
        for record in self.records.values():
            record.not_before = record.not_before if record.not_before > now else 0.0

    def archive(self, offsets: Iterable[int], states: set[int]) -> None:
        for offset in offsets:
            record = self.records.get(offset)
            if record and record.state in states and not record.change:
                record.put(ARCHIVED)
        self.advance()

    def move_log_start(self, to: int) -> None:
        if any(x < to and record.state == ARCHIVING for x, record in self.records.items()):
            for record in (r for x, r in self.records.items() if x < to and r.state < ACKNOWLEDGED):
                record.put(ARCHIVED)
            for offset in range(self.after_end, to):
                self.records[offset] = Record(ARCHIVED, 0, None)
            self.after_end = max(self.after_end, to)
            self.advance()
        elif to > self.start:
            self.records = {offset: record for offset, record in self.records.items() if offset >= to}
            self.after_end = max(self.after_end, to)
            self.advance()

    # --- dead letters

    def requested_letters(self, limit: int) -> list[tuple[int, int, Failure]]:
        """Offset, delivery count and failure of the first archiving records whose state is durable."""
        found = [
            (offset, record.count, record.failure)
            for offset, record in sorted(self.records.items())
            if record.state == ARCHIVING and record.known
        ]
        return found[:limit]

    def letters_written(self, number: int, offsets: Iterable[int]) -> bool:
        self.written[number] = []
        for offset in sorted(set(offsets) & self.records.keys()):
            record = self.records[offset]
            if record.state == ARCHIVING:
                record.put(ARCHIVED)
                self.written[number].append((offset, *record.stored(())))
        self.advance()
        return bool(self.written[number])

    def configure(self, number: int, settings: SharePartitionSettings) -> bool:
        self.settings = settings
        return self.letters_written(number, () if settings.dead_letters else list(self.records))

    # --- durability

    def write(self, numbers: Sequence[int]) -> tuple[int, int, list[Piece]]:
        """Returns start offset, delivery complete count, and what is written of each offset, in order."""
        states = {
            offset: record.change[1] if record.change and record.change[0] in numbers else record.state
            for offset, record in self.records.items()
        }
        ended = (ACKNOWLEDGED, ARCHIVED)
        start = min((x for x, state in states.items() if state not in ended), default=self.after_end)
        complete = sum(offset >= start and state in ended for offset, state in states.items())
        pieces = [piece for number in numbers for piece in self.written[number]]
        pieces += [piece for number in numbers for piece in self._newer(number, numbers)]
        for number in numbers:
            for offset, record in self.records.items():
                if record.lock in self.locks.get(number, ()) and not record.change:
                    pieces.append((offset, *record.stored(())))
        return start, complete, sorted(piece for piece in pieces if piece[0] >= start)

    def _newer(self, number: int, numbers: Sequence[int]) -> Iterator[Piece]:
        """Yields the present times and locks of timeouts that are written late."""
        for offset, _, count, *note in self.written[number] if number in self.timeouts else ():
            if offset in self.records:
                state, newer_count, *newer = self.records[offset].stored(numbers)
                if state == AVAILABLE and newer_count >= count and newer != note:
                    yield (offset, *self.records[offset].stored(numbers))

    def complete(self, numbers: Sequence[int], durable: bool) -> None:
        for record in self.records.values():
            if record.change and record.change[0] in numbers:
                _, state = record.change
                record.change = None
                if durable:
                    record.count = record.before if record.returned else record.count
                    record.put(state)
                    record.not_before = record.later
                else:
                    record.failure = ()
                    record.counted |= state == AVAILABLE and not record.returned
        pieces = [piece for number in numbers for piece in self.written[number]]
        for offset, state, *_ in pieces if durable else ():
            if state == ARCHIVING and offset in self.records:
                self.records[offset].known = True
        self.advance()
