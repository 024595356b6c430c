"""Every kind of finding has a constructed log, so that each rule is shown to fail."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from sharebroker.inspection import StoredState, StoredStateBatch, StoredStateRecord
from sharebroker.verification.rules import Evidence, FindingKind, runs_of, start_of, verify
from sharebroker.verification.runs import OffsetSpan, RecordLog

Batch = tuple[int, int, int, int]
ACCEPTED, ARCHIVED = 2, 4


def batches(*runs: Batch) -> tuple[StoredStateBatch, ...]:
    return tuple(
        StoredStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in runs
    )


def checkpoint(
    *runs: Batch, start: int = 10, epoch: int = 3, leader: int = 5, state_epoch: int = 2
) -> StoredStateRecord:
    return StoredStateRecord(
        position=7,
        kind="checkpoint",
        checkpoint_epoch=epoch,
        start_offset=start,
        state_epoch=state_epoch,
        leader_epoch=leader,
        delivery_complete_count=1,
        state_batches=batches(*runs),
    )


def delta(
    *runs: Batch, index: int = 0, epoch: int = 3, leader: int = -1, start: int = -1, kind: str = "delta"
) -> StoredStateRecord:
    return StoredStateRecord(
        position=8 + index,
        kind=kind,
        checkpoint_epoch=epoch,
        delta_index=index,
        start_offset=start,
        leader_epoch=leader,
        delivery_complete_count=1,
        state_batches=batches(*runs),
    )


@dataclass(frozen=True)
class Case:
    """A log, the state that the coordinator returns, and the expected findings."""

    entries: list[StoredStateRecord]
    live: StoredStateRecord | None
    kind: FindingKind | None = None
    offsets: list[OffsetSpan | None] = field(default_factory=list)
    log_start: int = 0
    missing: tuple[OffsetSpan, ...] = ()


TOMBSTONE = StoredStateRecord(position=7, kind="tombstone")
FIRST = checkpoint((12, 13, ACCEPTED, 1))
LATER = delta((10, 10, ACCEPTED, 1), start=11, leader=6)
VALUE = checkpoint((12, 13, ACCEPTED, 1), start=11, leader=6)

CASES = {
    "checkpoint alone": Case([FIRST], FIRST),
    "checkpoint and delta": Case([FIRST, LATER], VALUE),
    "deltas go on": Case([FIRST, delta(index=254), delta(index=255), delta(index=256)], FIRST),
    "deltas roll over at 256": Case([FIRST, delta(index=255), delta(index=0)], FIRST),
    "deltas roll over at 512": Case([FIRST, delta(index=511), delta(index=0)], FIRST),
    "start not chosen": Case([checkpoint(start=-1)], checkpoint(start=-1)),
    "the log starts later": Case(
        [FIRST], FIRST, FindingKind.START_BELOW_LOG, [OffsetSpan(10, 11)], log_start=12
    ),
    "records are missing": Case(
        [FIRST], FIRST, FindingKind.RECORDS_MISSING, [OffsetSpan(14, 15)], missing=(OffsetSpan(14, 15),)
    ),
    "no state": Case([], None, FindingKind.NO_STATE, [None]),
    "state was deleted": Case([TOMBSTONE], None, FindingKind.NO_STATE, [None]),
    "value without a log": Case([], FIRST, FindingKind.NOT_THE_REPLAY, [OffsetSpan(0, 19)]),
    "log without a value": Case([FIRST], None, FindingKind.NOT_THE_REPLAY, [None]),
    "no checkpoint": Case([LATER], VALUE, FindingKind.NO_CHECKPOINT, [None]),
    "a delta too little": Case([FIRST], VALUE, FindingKind.NOT_THE_REPLAY, [None, None]),
    "an offset is in another state": Case(
        [FIRST],
        checkpoint((12, 12, ACCEPTED, 1), (13, 13, ARCHIVED, 1)),
        FindingKind.NOT_THE_REPLAY,
        [OffsetSpan(13, 13)],
    ),
    "an offset is missing": Case(
        [FIRST], checkpoint((13, 13, ACCEPTED, 1)), FindingKind.NOT_THE_REPLAY, [OffsetSpan(12, 12)]
    ),
    "delta of an older checkpoint": Case(
        [FIRST, delta(epoch=2)], FIRST, FindingKind.CHECKPOINT_EPOCH, [None]
    ),
    "tombstone after a checkpoint": Case(
        [FIRST, delta(kind="tombstone")], FIRST, FindingKind.CHECKPOINT_EPOCH, [None]
    ),
    "delta is missing": Case([FIRST, delta(index=4), delta(index=6)], FIRST, FindingKind.DELTA_ORDER, [None]),
    "deltas roll over too early": Case(
        [FIRST, delta(index=4), delta(index=0)], FIRST, FindingKind.DELTA_ORDER, [None]
    ),
    "leader epoch decreases": Case([FIRST, delta(leader=4)], FIRST, FindingKind.EPOCH_WENT_BACK, [None]),
    "state is younger than its group": Case(
        [checkpoint(state_epoch=10)], checkpoint(state_epoch=10), FindingKind.EPOCH_WENT_BACK, [None]
    ),
    "start offset decreases": Case(
        [FIRST, delta(start=8)], FIRST, FindingKind.START_WENT_BACK, [OffsetSpan(8, 9)]
    ),
    "offsets before all": Case(
        [FIRST, delta((-2, -1, ACCEPTED, 1))], FIRST, FindingKind.NO_RUN, [OffsetSpan(-2, -1)]
    ),
    "end before beginning": Case(
        [FIRST, delta((15, 14, ACCEPTED, 1))], FIRST, FindingKind.NO_RUN, [OffsetSpan(15, 14)]
    ),
    "acquired is stored": Case(
        [checkpoint((12, 13, 1, 1))],
        checkpoint((12, 13, 1, 1)),
        FindingKind.ILLEGAL_STATE,
        [OffsetSpan(12, 13)] * 2,
    ),
    "more deliveries than the limit": Case(
        [FIRST, delta((14, 14, 0, 6))],
        checkpoint((12, 13, ACCEPTED, 1), (14, 14, 0, 6)),
        FindingKind.DELIVERY_COUNT,
        [OffsetSpan(14, 14)] * 2,
    ),
    "fewer deliveries than none": Case(
        [FIRST, delta((12, 12, 0, -1))], FIRST, FindingKind.DELIVERY_COUNT, [OffsetSpan(12, 12)]
    ),
    "two states of an offset": Case(
        [checkpoint((12, 13, ACCEPTED, 1), (13, 13, ARCHIVED, 1))],
        checkpoint((12, 12, ACCEPTED, 1), (13, 13, ARCHIVED, 1)),
        FindingKind.OVERLAP,
        [OffsetSpan(13, 13)],
    ),
    "state below the start": Case(
        [checkpoint((8, 10, ACCEPTED, 1), (12, 13, ACCEPTED, 1))],
        checkpoint((10, 10, ACCEPTED, 1), (12, 13, ACCEPTED, 1)),
        FindingKind.BELOW_START,
        [OffsetSpan(8, 9)],
    ),
    "state after the end of the log": Case(
        [FIRST, delta((19, 21, ACCEPTED, 1))],
        checkpoint((12, 13, ACCEPTED, 1), (19, 21, ACCEPTED, 1)),
        FindingKind.BEYOND_END,
        [OffsetSpan(20, 21)] * 2,
    ),
    "start offset after the end of the log": Case(
        [checkpoint(start=22)], checkpoint(start=22), FindingKind.START_BEYOND_END, [OffsetSpan(20, 21)]
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rule_violation_is_found(case: Case) -> None:
    stored = StoredState(records=tuple(case.entries), live=case.live)
    found = verify(Evidence(stored, RecordLog(case.log_start, 20, missing=case.missing), 9, 5))
    assert [finding.offsets for finding in found] == case.offsets
    assert {finding.kind for finding in found} == ({case.kind} if case.kind else set())
    assert all(finding.meaning for finding in found)


def test_start_offset_is_replayed() -> None:
    starts = [([], -1), ([TOMBSTONE], -1), ([FIRST], 10), ([FIRST, LATER, delta(index=1)], 11)]
    for entries, start in starts:
        assert start_of(StoredState(records=tuple(entries))) == start


def test_every_kind_has_a_case() -> None:
    provoked = {case.kind for case in CASES.values()}
    assert provoked == {None, *FindingKind} - {
        FindingKind.UNREADABLE
    }  # nothing to verify; see the test on a server


def test_only_start_below_log_is_a_remark() -> None:
    assert [kind for kind in FindingKind if kind.remark] == [FindingKind.START_BELOW_LOG]


def test_runs_have_the_times_and_tokens_of_their_batches() -> None:
    record = StoredStateRecord(
        state_batches=(
            StoredStateBatch(10, 14, 0, 1, 5.0),
            StoredStateBatch(15, 19, 0, 1, 5.0, 7),
            StoredStateBatch(20, 20, 3, 2, disposition="expired", failed_at=7.5),
        )
    )
    assert [run[4:] for run in runs_of(record)] == [(5000, 0, 0, 0), (5000, 7, 0, 0), (0, 0, 3, 7500)]
