"""Helpers of the share-partition tests: build, drive, show and check a share-partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sharebroker_protocol.model import (
    ENDED,
    FINISHED,
    AckBatch,
    AcquiredRange,
    AcquireMode,
    RecordState,
    StateBatch,
    StateNote,
    StateWrite,
)
from sharebroker_server.share_partition_leader.core.events import (
    AcquireRequest,
    LoadedState,
    LogBatch,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.runs import Run, Transition
from sharebroker_server.share_partition_leader.core.transitions import RecordEvent
from tests.unit.share_partition_leader.core.stepped import SteppedPartition

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
OPTIMIZED, LIMITED = AcquireMode

_NAMES = {
    "available": AVAILABLE,
    "acknowledged": ACKNOWLEDGED,
    "archiving": ARCHIVING,
    "archived": ARCHIVED,
}


def batch(text: str) -> StateBatch:
    """A state batch from "10-19 available 1"."""
    offsets, state, count = text.split()
    first, _, last = offsets.partition("-")
    return StateBatch(int(first), int(last or first), _NAMES[state], int(count))


def batches(text: str) -> tuple[StateBatch, ...]:
    """State batches from "10-19 available 1, 20 archived 2"."""
    return tuple(batch(part) for part in text.split(", ") if part)


def opened(
    start: int = 0, stored: str = "", settings: SharePartitionSettings | None = None, leader_epoch: int = 7
) -> SteppedPartition:
    """A share-partition at `start` with stored batches (see `batches`)."""
    loaded = LoadedState(3, leader_epoch, start, batches(stored))
    return SteppedPartition(settings or SharePartitionSettings(), loaded)


def log_of(text: str) -> list[LogBatch]:
    """Log batches from "0-9 10 15-19"."""
    parts = (part.partition("-") for part in text.split())
    return [(int(first), int(last or first)) for first, _, last in parts]


def fetch(
    share: SteppedPartition,
    log: str | Sequence[LogBatch],
    member: str = "m1",
    most: int = 500,
    size: int = 500,
    mode: AcquireMode = OPTIMIZED,
    now: float = 0.0,
) -> list[AcquiredRange]:
    """Acquires from `log` at the next fetch offset."""
    read = log_of(log) if isinstance(log, str) else log
    offset = share.next_fetch_offset()
    found = [piece for piece in read if piece[1] >= offset]
    acquired = share.acquire(AcquireRequest(member, most, size, mode), offset, found, now)
    check(share)
    return acquired


def ranges(acquired: Iterable[AcquiredRange]) -> str:
    """Returns the acquired ranges as "0-9 x1, 12 x2" (x: delivery count)."""
    return ", ".join(f"{_span(a.first, a.last)} x{a.delivery_count}" for a in acquired)


def offsets(acquired: Iterable[AcquiredRange]) -> list[int]:
    """Every acquired offset."""
    return [offset for a in acquired for offset in range(a.first, a.last + 1)]


def ack(
    share: SteppedPartition,
    text: str,
    kind: int | Sequence[int] = ACCEPT,
    member: str = "m1",
    now: float = 0.0,
) -> StateWrite | None:
    """Acknowledges "10-19 25" durably; returns the write, None if none was needed."""
    transition = share.acknowledge(member, acks(text, kind), now)
    return None if transition is None else done(share, transition)


def acks(text: str, kind: int | Sequence[int] = ACCEPT, token: int | None = None) -> list[AckBatch]:
    """Acknowledgement batches from "10-19 25"."""
    types = (kind,) if isinstance(kind, int) else tuple(kind)
    return [AckBatch(first, last, types, token) for first, last in log_of(text)]


def done(share: SteppedPartition, *transitions: Transition) -> StateWrite:
    """Stores transitions in one durable write and returns it."""
    written = share.write(transitions)
    share.complete(transitions)
    check(share)
    return written


def show(written: StateWrite | None) -> str:
    """A write as "120: 130-139 available 1"."""
    if written is None:
        return ""
    return f"{written.start_offset}: {', '.join(_text(b) for b in written.batches)}".strip()


def compact(share: SteppedPartition, first: int, last: int) -> None:
    """Archives offsets as a fetch does that finds them compacted."""
    share.in_flight.archive(first, last, RecordEvent.COMPACT)


def picture(share: SteppedPartition, members: bool = False) -> str:
    """The window as "10-19 acquired 1, 20 available 2", neighbours that look the same as one."""
    shown: list[tuple[int, int, str]] = []
    for run in share.in_flight.runs:
        text = f"{run.state.name.lower()} {run.delivery_count}"
        if run.not_before_ms:
            text += f" from {run.not_before_ms / 1000:g}"
        if members and run.lock is not None:
            text += f" {run.lock.member}"
        if shown and shown[-1][1] + 1 == run.first and shown[-1][2] == text:
            shown[-1] = (shown[-1][0], run.last, text)
        else:
            shown.append((run.first, run.last, text))
    return ", ".join(f"{_span(first, last)} {text}" for first, last, text in shown)


def _text(b: StateBatch) -> str:
    return f"{_span(b.first, b.last)} {RecordState(b.state).name.lower()} {b.delivery_count}"


def _span(first: int, last: int) -> str:
    return f"{first}-{last}" if first != last else str(first)


def check(share: SteppedPartition) -> None:
    """Checks every invariant of the window."""
    in_flight = share.in_flight
    runs = in_flight.runs
    assert in_flight.firsts == [run.first for run in runs]
    assert all(run.first <= run.last for run in runs)
    assert all(a.last < b.first for a, b in pairwise(runs))
    if runs:
        assert in_flight.start == runs[0].first
        assert in_flight.end == runs[-1].last
        assert runs[0].state not in FINISHED
    else:
        assert in_flight.start == in_flight.end
    assert in_flight.complete_count == sum(run.size for run in runs if run.state in FINISHED)
    assert in_flight.locked == sum(run.size for run in runs if run.lock is not None)
    assert in_flight.waiting == sum(run.size for run in runs if run.not_before_ms)
    assert in_flight.archiving == sum(run.size for run in runs if run.state is ARCHIVING)
    assert in_flight.ready == sum(run.size for run in runs if run.ready)
    assert in_flight.sizes()[2] == sum(run.size for run in runs)
    for run in runs:
        _check_run(run)
    _check_batches(runs)
    _check_hints(share)


def _check_run(run: Run) -> None:
    assert (run.lock is not None) == (run.state is ACQUIRED)
    assert run.pending is None or (run.lock is not None and run in run.pending.runs)
    assert run.delivery_count > 0 or run.state in (AVAILABLE, ARCHIVED)
    failing = run.pending is not None and run.target in (ARCHIVING, ARCHIVED)
    assert run.failure is None or run.state is ARCHIVING or failing
    assert run.stored or run.state is ARCHIVING
    assert not run.not_before_ms or run.state is AVAILABLE
    if run.lock is not None:
        assert run.lock.first <= run.first
        assert run.last <= run.lock.last
    if run.batch is None:
        assert run.delivery_count == 0 or run.state in ENDED
    elif run.state not in ENDED:
        assert run.batch.first <= run.first
        assert run.last <= run.batch.last


def _check_batches(runs: list[Run]) -> None:
    seen = set()
    for before, run in pairwise([None, *runs]):
        assert run is not None
        if run.batch is not None and (before is None or before.batch is not run.batch):
            assert run.batch not in seen
            seen.add(run.batch)


def _check_hints(share: SteppedPartition) -> None:
    in_flight = share.in_flight
    available = [run.first for run in in_flight.runs if run.ready]
    assert in_flight.first_available() == (available[0] if available else None)
    deadlines = [run.lock.deadline for run in in_flight.runs if run.lock and run.pending is None]
    ahead = share.loaded_state.clock_offset_ms
    deadlines += [(run.not_before_ms - ahead) / 1000 for run in in_flight.runs if run.not_before_ms]
    bound = share.next_deadline()
    assert not deadlines or (bound is not None and bound <= min(deadlines))


@dataclass
class Store:
    """The share coordinator as one dict: applies writes by offset and returns the state."""

    start: int = 0
    records: dict[int, tuple[int, RecordState]] = field(default_factory=dict)
    notes: dict[int, StateNote | None] = field(default_factory=dict)

    def apply(self, written: StateWrite) -> None:
        self.start = max(self.start, written.start_offset)
        for piece in written.batches:
            for offset in range(piece.first, piece.last + 1):
                value = (piece.delivery_count, RecordState(piece.state))
                if value >= self.records.get(offset, value):
                    self.records[offset], self.notes[offset] = value, piece.note
        self.records = {offset: value for offset, value in self.records.items() if offset >= self.start}

    def finished(self, offset: int) -> bool:
        """Whether the start offset of a new leader may pass the offset."""
        return offset < self.start or self.records.get(offset, (0, AVAILABLE))[1] in FINISHED

    def ended(self, offset: int) -> bool:
        """Whether a new leader would not deliver the offset."""
        return self.finished(offset) or self.records[offset][1] is ARCHIVING

    def loaded(self, leader_epoch: int = 8) -> LoadedState:
        """Returns the state that a new leader reads."""
        merged: list[StateBatch] = []
        for offset, (count, state) in sorted(self.records.items()):
            last, note = merged[-1] if merged else None, self.notes[offset]
            if last and last.last + 1 == offset and last[2:] == (state, count, note):
                merged[-1] = last._replace(last=offset)
            else:
                merged.append(StateBatch(offset, offset, state, count, note))
        return LoadedState(3, leader_epoch, self.start, tuple(merged))
