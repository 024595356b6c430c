"""Rules for the stored state of a share-partition, and the findings of their violations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from sharebroker.inspection import StoredState, StoredStateRecord
from sharebroker.verification.runs import OffsetRun, OffsetSpan, RecordLog, differences, replay
from sharebroker_protocol.model import DISPOSITION_NAMES

_STATES: Final = frozenset({0, 2, 3, 4})
_DELTA_RANGES: Final = (256, 512)
"""Delta indices wrap around at one of these (512 with more than 256 deltas per checkpoint)."""
_DISPOSITIONS: Final = {name: number for number, name in DISPOSITION_NAMES.items()}
_VALUE: Final = "The coordinator's live state"


class FindingKind(StrEnum):
    """The kind of a finding. A remark is a permitted but noteworthy condition."""

    NO_STATE = "no-state"
    UNREADABLE = "unreadable"
    NO_CHECKPOINT = "no-checkpoint"
    CHECKPOINT_EPOCH = "checkpoint-epoch"
    DELTA_ORDER = "delta-order"
    EPOCH_WENT_BACK = "epoch-went-back"
    START_WENT_BACK = "start-went-back"
    NOT_THE_REPLAY = "not-the-replay"
    NO_RUN = "no-run"
    ILLEGAL_STATE = "illegal-state"
    DELIVERY_COUNT = "delivery-count"
    OVERLAP = "overlap"
    BELOW_START = "below-start"
    BEYOND_END = "beyond-end"
    START_BEYOND_END = "start-beyond-end"
    START_BELOW_LOG = "start-below-log"
    RECORDS_MISSING = "records-missing"

    @property
    def remark(self) -> bool:
        """Whether it is a remark: the log start may pass an inactive group, by retention or DeleteRecords."""
        return self is FindingKind.START_BELOW_LOG


@dataclass(frozen=True, slots=True)
class VerificationFinding:
    """A violation, with its offsets (None if it does not concern offsets) and its meaning."""

    kind: FindingKind
    meaning: str
    offsets: OffsetSpan | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read of a share-partition; the log end and group epoch were read after the state."""

    stored: StoredState
    log: RecordLog
    group_epoch: int
    delivery_count_limit: int

    @property
    def entries(self) -> Sequence[StoredStateRecord]:
        """The latest checkpoint and its deltas, in log order."""
        return self.stored.records

    @property
    def start(self) -> int:
        """The replayed start offset; -1: none chosen."""
        return start_of(self.stored)

    def replayed(self) -> list[OffsetRun]:
        """Returns the replayed state."""
        return replay((run for entry in self.entries for run in runs_of(entry)), self.start)


def start_of(stored: StoredState) -> int:
    """Returns the replayed start offset of the entries; -1: none chosen."""
    if not stored.records or stored.records[0].kind == "tombstone":
        return -1
    return max(entry.start_offset for entry in stored.records)


def runs_of(record: StoredStateRecord) -> list[OffsetRun]:
    """Returns the state batches of a record as runs."""
    return [
        OffsetRun(
            batch.first_offset,
            batch.last_offset,
            batch.delivery_state,
            batch.delivery_count,
            round(batch.not_before * 1000),
            batch.lock_token,
            _DISPOSITIONS.get(batch.disposition, 0),
            round(batch.failed_at * 1000),
        )
        for batch in record.state_batches
    ]


def verify(evidence: Evidence) -> list[VerificationFinding]:
    """Returns all violations of the rules."""
    if not evidence.entries or evidence.entries[0].kind == "tombstone":
        return list(_nothing(evidence))
    if evidence.entries[0].kind != "checkpoint":
        kind = evidence.entries[0].kind
        return [
            VerificationFinding(
                FindingKind.NO_CHECKPOINT, f"The log begins with a {kind}; its checkpoint is missing."
            )
        ]
    return [finding for rule in _RULES for finding in rule(evidence)]


def _nothing(evidence: Evidence) -> Iterator[VerificationFinding]:
    if evidence.stored.live is not None:
        span = OffsetSpan(evidence.log.start, evidence.log.end - 1)
        yield VerificationFinding(
            FindingKind.NOT_THE_REPLAY, "The coordinator has a live state that is not in its log.", span
        )
    else:
        yield VerificationFinding(
            FindingKind.NO_STATE, "The group consumes this partition, but no state is stored."
        )


def _order(evidence: Evidence) -> Iterator[VerificationFinding]:
    """Deltas follow their checkpoint with consecutive indices."""
    checkpoint, *deltas = evidence.entries
    for delta in deltas:
        if delta.kind != "delta" or delta.checkpoint_epoch != checkpoint.checkpoint_epoch:
            yield VerificationFinding(
                FindingKind.CHECKPOINT_EPOCH,
                f"{_name(delta)} belongs to checkpoint epoch {delta.checkpoint_epoch}, but the latest "
                f"checkpoint has epoch {checkpoint.checkpoint_epoch}: the delta is ignored.",
            )
    for before, after in pairwise(deltas):
        expected = before.delta_index + 1
        if after.delta_index != expected and (after.delta_index or expected not in _DELTA_RANGES):
            yield VerificationFinding(
                FindingKind.DELTA_ORDER,
                f"{_name(after)} has index {after.delta_index} after {before.delta_index}: a delta is "
                "missing, or the order is wrong.",
            )


def _epochs(evidence: Evidence) -> Iterator[VerificationFinding]:
    """Epochs and start offsets never decrease, and the state epoch does not exceed the group epoch."""
    leader_epoch = start = -1
    for entry in evidence.entries:
        if 0 <= entry.leader_epoch < leader_epoch:
            text = f"{_name(entry)} has leader epoch {entry.leader_epoch} after {leader_epoch}."
            yield VerificationFinding(FindingKind.EPOCH_WENT_BACK, text)
        if 0 <= entry.start_offset < start:
            text = f"{_name(entry)} moves the start back to {entry.start_offset}: records are redelivered."
            yield VerificationFinding(
                FindingKind.START_WENT_BACK, text, OffsetSpan(entry.start_offset, start - 1)
            )
        leader_epoch, start = max(leader_epoch, entry.leader_epoch), max(start, entry.start_offset)
    state_epoch = evidence.entries[0].state_epoch
    if state_epoch > evidence.group_epoch:
        text = f"The state epoch {state_epoch} exceeds the group epoch {evidence.group_epoch}."
        yield VerificationFinding(FindingKind.EPOCH_WENT_BACK, text)


def _agreement(evidence: Evidence) -> Iterator[VerificationFinding]:
    """The coordinator's live state equals the replay of its log."""
    live = evidence.stored.live
    if live is None:
        yield VerificationFinding(
            FindingKind.NOT_THE_REPLAY, "The log has a state, but the coordinator has none."
        )
        return
    for name, served, replayed in _facts(evidence, live):
        if served != replayed:
            text = f"The coordinator's {name} is {served}, but its log replays to {replayed}."
            yield VerificationFinding(FindingKind.NOT_THE_REPLAY, text)
    served_runs, replayed_runs = replay(runs_of(live), evidence.start), evidence.replayed()
    for span in differences(served_runs, replayed_runs):
        yield VerificationFinding(
            FindingKind.NOT_THE_REPLAY,
            "The live state of these offsets differs from the replay of the log.",
            span,
        )


def _facts(evidence: Evidence, live: StoredStateRecord) -> Iterator[tuple[str, int, int]]:
    """Yields the scalar values as (name, live value, replayed value)."""
    entries = evidence.entries
    yield "start offset", live.start_offset, evidence.start
    yield "state epoch", live.state_epoch, entries[0].state_epoch
    yield "leader epoch", live.leader_epoch, max(entry.leader_epoch for entry in entries)
    yield "checkpoint epoch", live.checkpoint_epoch, entries[0].checkpoint_epoch
    yield "delivery complete count", live.delivery_complete_count, entries[-1].delivery_complete_count


def _batches(evidence: Evidence) -> Iterator[VerificationFinding]:
    """Each state batch is valid, in the log and in the live state."""
    records = [(_name(entry), entry) for entry in evidence.entries]
    for where, record in (*records, *_live(evidence)):
        for run in runs_of(record):
            yield from _batch(where, run, evidence)


def _batch(where: str, run: OffsetRun, evidence: Evidence) -> Iterator[VerificationFinding]:
    span = OffsetSpan(run.first, run.last)
    if not 0 <= run.first <= run.last:
        yield VerificationFinding(FindingKind.NO_RUN, f"{where} has an invalid offset range.", span)
    if run.state not in _STATES:
        yield VerificationFinding(
            FindingKind.ILLEGAL_STATE, f"{where} has state {run.state}, which is never stored.", span
        )
    limit = evidence.delivery_count_limit
    if not 0 <= run.deliveries <= limit:
        text = f"{where} has delivery count {run.deliveries}, but the limit is {limit} (was it lowered?)."
        yield VerificationFinding(FindingKind.DELIVERY_COUNT, text, span)
    if run.last >= evidence.log.end:
        text = f"{where} has offsets after the log end {evidence.log.end}: records were lost."
        yield VerificationFinding(
            FindingKind.BEYOND_END, text, OffsetSpan(max(run.first, evidence.log.end), run.last)
        )


def _whole(evidence: Evidence) -> Iterator[VerificationFinding]:
    """A complete state has one state per offset, and none below its start offset."""
    checkpoint = evidence.entries[0]
    for where, record in ((_name(checkpoint), checkpoint), *_live(evidence)):
        runs = sorted(runs_of(record))
        for before, after in pairwise(runs):
            if after.first <= before.last:
                span = OffsetSpan(after.first, min(before.last, after.last))
                yield VerificationFinding(
                    FindingKind.OVERLAP, f"{where} has two states for these offsets.", span
                )
        for run in runs:
            if run.first < record.start_offset:
                span = OffsetSpan(run.first, min(run.last, record.start_offset - 1))
                text = f"{where} has states below its start offset {record.start_offset}."
                yield VerificationFinding(FindingKind.BELOW_START, text, span)


def _limits(evidence: Evidence) -> Iterator[VerificationFinding]:
    """The start offset lies within the record log, and the log has no missing records."""
    start, log_start, log_end = evidence.start, evidence.log.start, evidence.log.end
    if start > log_end:
        text = (
            f"The start offset {start} is after the log end {log_end}: records were lost, or will be skipped."
        )
        yield VerificationFinding(FindingKind.START_BEYOND_END, text, OffsetSpan(log_end, start - 1))
    if 0 <= start < log_start:
        text = f"The log now starts at {log_start}: records the group had not finished were deleted."
        yield VerificationFinding(FindingKind.START_BELOW_LOG, text, OffsetSpan(start, log_start - 1))

    for span in evidence.log.missing:
        yield VerificationFinding(
            FindingKind.RECORDS_MISSING,
            "The record log has no record at these offsets: published records were lost.",
            span,
        )


def _live(evidence: Evidence) -> Iterator[tuple[str, StoredStateRecord]]:
    """Yields the live state with its name, if there is one."""
    if evidence.stored.live is not None:
        yield _VALUE, evidence.stored.live


def _name(record: StoredStateRecord) -> str:
    return f"The {record.kind} at {record.position}"


_RULES: Final[Iterable[Callable[[Evidence], Iterator[VerificationFinding]]]] = (
    _order,
    _epochs,
    _agreement,
    _batches,
    _whole,
    _limits,
)
