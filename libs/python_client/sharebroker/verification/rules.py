"""What must hold in the stored state of a share-partition, and what is found where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from sharebroker.verification.offset_outcomes import RecordLog
from sharebroker.verification.runs import Run, Span, differences, replay
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2 import InspectShareGroupStateResponse

LogRecord = InspectShareGroupStateResponse.LogRecord

_STATES: Final = frozenset({0, 2, 3, 4})
_DELTA_RANGES: Final = (256, 512)
"""Delta indices roll over behind one of these (the larger for more than 256 deltas a checkpoint)."""
_VALUE: Final = "The coordinator's value"


class Kind(StrEnum):
    """What was found; a remark is lawful, and worth knowing."""

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
        """Retention and DeleteRecords let the log's start pass that of a group nobody is working in."""
        return self is Kind.START_BELOW_LOG


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, with the offsets (None: not a matter of offsets) and what it means."""

    kind: Kind
    meaning: str
    offsets: Span | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the logs of a share-partition say; log end and group epoch were read after the state."""

    stored: InspectShareGroupStateResponse
    log: RecordLog
    group_epoch: int
    delivery_count_limit: int

    @property
    def entries(self) -> Sequence[LogRecord]:
        """The latest checkpoint and what follows it, in log order."""
        return self.stored.records

    @property
    def start(self) -> int:
        """The start offset that replay comes to; -1: not chosen yet."""
        return start_of(self.stored)

    def replayed(self) -> list[Run]:
        """What replay comes to."""
        return replay((run for entry in self.entries for run in runs_of(entry)), self.start)


def start_of(stored: InspectShareGroupStateResponse) -> int:
    """The start offset that the entries come to; -1: not chosen yet."""
    if not stored.records or stored.records[0].kind == "tombstone":
        return -1
    return max(entry.start_offset for entry in stored.records)


def runs_of(record: LogRecord) -> list[Run]:
    """The state batches of a record or value, as they stand."""
    return [
        Run(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in record.state_batches
    ]


def verify(evidence: Evidence) -> list[Finding]:
    """Everything that cannot be right."""
    if not evidence.entries or evidence.entries[0].kind == "tombstone":
        return list(_nothing(evidence))
    if evidence.entries[0].kind != "checkpoint":
        kind = evidence.entries[0].kind
        return [Finding(Kind.NO_CHECKPOINT, f"The log begins with a {kind}: what it changes is not there.")]
    return [finding for rule in _RULES for finding in rule(evidence)]


def _nothing(evidence: Evidence) -> Iterator[Finding]:
    if evidence.stored.HasField("live"):
        span = Span(evidence.log.start, evidence.log.end - 1)
        yield Finding(Kind.NOT_THE_REPLAY, "The coordinator has a value that is not in its log.", span)
    else:
        yield Finding(Kind.NO_STATE, "The group works in this partition, and nothing is stored of it.")


def _order(evidence: Evidence) -> Iterator[Finding]:
    """Deltas follow their checkpoint one by one."""
    checkpoint, *deltas = evidence.entries
    for delta in deltas:
        if delta.kind != "delta" or delta.checkpoint_epoch != checkpoint.checkpoint_epoch:
            yield Finding(
                Kind.CHECKPOINT_EPOCH,
                f"{_name(delta)} belongs to checkpoint epoch {delta.checkpoint_epoch}, the latest "
                f"checkpoint is of epoch {checkpoint.checkpoint_epoch}: it counts for nothing.",
            )
    for before, after in pairwise(deltas):
        expected = before.delta_index + 1
        if after.delta_index != expected and (after.delta_index or expected not in _DELTA_RANGES):
            yield Finding(
                Kind.DELTA_ORDER,
                f"{_name(after)} has index {after.delta_index} after {before.delta_index}: one is missing, "
                "or they changed places.",
            )


def _epochs(evidence: Evidence) -> Iterator[Finding]:
    """Epochs and start offsets only rise, and no state is younger than its group."""
    leader_epoch = start = -1
    for entry in evidence.entries:
        if 0 <= entry.leader_epoch < leader_epoch:
            text = f"{_name(entry)} is written under leader epoch {entry.leader_epoch} after {leader_epoch}."
            yield Finding(Kind.EPOCH_WENT_BACK, text)
        if 0 <= entry.start_offset < start:
            text = (
                f"{_name(entry)} puts the start back to {entry.start_offset}: what was finished comes again."
            )
            yield Finding(Kind.START_WENT_BACK, text, Span(entry.start_offset, start - 1))
        leader_epoch, start = max(leader_epoch, entry.leader_epoch), max(start, entry.start_offset)
    state_epoch = evidence.entries[0].state_epoch
    if state_epoch > evidence.group_epoch:
        text = f"The state is of epoch {state_epoch}, the group only of {evidence.group_epoch}."
        yield Finding(Kind.EPOCH_WENT_BACK, text)


def _agreement(evidence: Evidence) -> Iterator[Finding]:
    """The value that the coordinator answers from is what its log replays to."""
    live = evidence.stored.live
    if not evidence.stored.HasField("live"):
        yield Finding(Kind.NOT_THE_REPLAY, "The log has a value, and the coordinator has none.")
        return
    for name, served, replayed in _facts(evidence, live):
        if served != replayed:
            text = f"The coordinator's {name} is {served}; replay of its log comes to {replayed}."
            yield Finding(Kind.NOT_THE_REPLAY, text)
    served_runs, replayed_runs = replay(runs_of(live), evidence.start), evidence.replayed()
    for span in differences(served_runs, replayed_runs):
        yield Finding(
            Kind.NOT_THE_REPLAY, "The coordinator says another thing of these than its log replays to.", span
        )


def _facts(evidence: Evidence, live: LogRecord) -> Iterator[tuple[str, int, int]]:
    """What is one number: its name, as it is served, as it is replayed."""
    entries = evidence.entries
    yield "start offset", live.start_offset, evidence.start
    yield "state epoch", live.state_epoch, entries[0].state_epoch
    yield "leader epoch", live.leader_epoch, max(entry.leader_epoch for entry in entries)
    yield "checkpoint epoch", live.checkpoint_epoch, entries[0].checkpoint_epoch
    yield "delivery complete count", live.delivery_complete_count, entries[-1].delivery_complete_count


def _batches(evidence: Evidence) -> Iterator[Finding]:
    """Every state batch by itself, in the log as in the value."""
    records = [(_name(entry), entry) for entry in evidence.entries]
    for where, record in (*records, (_VALUE, evidence.stored.live)):
        for run in runs_of(record):
            yield from _batch(where, run, evidence)


def _batch(where: str, run: Run, evidence: Evidence) -> Iterator[Finding]:
    span = Span(run.first, run.last)
    if not 0 <= run.first <= run.last:
        yield Finding(Kind.NO_RUN, f"{where} names offsets that are none.", span)
    if run.state not in _STATES:
        yield Finding(
            Kind.ILLEGAL_STATE, f"{where} has them in state {run.state}, which is never stored.", span
        )
    limit = evidence.delivery_count_limit
    if not 0 <= run.deliveries <= limit:
        text = f"{where} has them delivered {run.deliveries} times; the limit is {limit} (was it lowered?)."
        yield Finding(Kind.DELIVERY_COUNT, text, span)
    if run.last >= evidence.log.end:
        text = f"{where} speaks of offsets behind the log's end {evidence.log.end}: records were lost."
        yield Finding(Kind.BEYOND_END, text, Span(max(run.first, evidence.log.end), run.last))


def _whole(evidence: Evidence) -> Iterator[Finding]:
    """Whole values have one state an offset, and none below their start; changes may be told otherwise."""
    checkpoint = evidence.entries[0]
    for where, record in ((_name(checkpoint), checkpoint), (_VALUE, evidence.stored.live)):
        runs = sorted(runs_of(record))
        for before, after in pairwise(runs):
            if after.first <= before.last:
                span = Span(after.first, min(before.last, after.last))
                yield Finding(Kind.OVERLAP, f"{where} has two states of them.", span)
        for run in runs:
            if run.first < record.start_offset:
                span = Span(run.first, min(run.last, record.start_offset - 1))
                text = f"{where} has states of them below its start {record.start_offset}."
                yield Finding(Kind.BELOW_START, text, span)


def _limits(evidence: Evidence) -> Iterator[Finding]:
    """The start lies within the record log, and that has no holes."""
    start, log_start, log_end = evidence.start, evidence.log.start, evidence.log.end
    if start > log_end:
        text = (
            f"The group starts at {start}, the log ends at {log_end}: records were lost, or will be skipped."
        )
        yield Finding(Kind.START_BEYOND_END, text, Span(log_end, start - 1))
    if 0 <= start < log_start:
        text = f"The log starts at {log_start} by now: what the group had not finished of these is deleted."
        yield Finding(Kind.START_BELOW_LOG, text, Span(start, log_start - 1))

    for span in evidence.log.missing:
        yield Finding(Kind.RECORDS_MISSING, "The record log has a hole: what was published is lost.", span)


def _name(record: LogRecord) -> str:
    return f"The {record.kind} at {record.position}"


_RULES: Final[Iterable[Callable[[Evidence], Iterator[Finding]]]] = (
    _order,
    _epochs,
    _agreement,
    _batches,
    _whole,
    _limits,
)
