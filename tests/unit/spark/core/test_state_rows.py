"""The log of a share-partition as rows."""

from __future__ import annotations

from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2 import (
    InspectShareGroupStateResponse,
    StateBatch,
    StateNote,
)
from sharebroker_spark.core.state_rows import COLUMNS, StateRowKey, rows, unreadable

LogRecord = InspectShareGroupStateResponse.LogRecord


PLACE = StateRowKey("g", "orders", "id", 3)


NAMES = [name for name, _ in COLUMNS]


def batch(first: int, last: int, state: int, count: int, not_before_ms: int = 0) -> StateBatch:
    note = StateNote(not_before_ms=not_before_ms) if not_before_ms else None
    return StateBatch(
        first_offset=first, last_offset=last, delivery_state=state, delivery_count=count, note=note
    )


def test_log_has_one_row_per_run() -> None:
    stored = InspectShareGroupStateResponse(
        records=[
            LogRecord(
                position=7,
                kind="checkpoint",
                checkpoint_epoch=2,
                state_epoch=4,
                leader_epoch=5,
                start_offset=-1,
                delivery_complete_count=1,
                write_timestamp_ms=1500,
                state_batches=[batch(1, 2, 2, 1), batch(4, 4, 0, 3, 2500)],
            ),
            LogRecord(
                position=9, kind="delta", checkpoint_epoch=2, delta_index=8, leader_epoch=-1, start_offset=6
            ),
            LogRecord(position=11, kind="tombstone"),
        ],
        live=LogRecord(position=7, kind="checkpoint", checkpoint_epoch=2, start_offset=6),
    )
    found = [dict(zip(NAMES, row, strict=True)) for row in rows(PLACE, stored.records, stored.live)]
    assert {(row["group"], row["topic"], row["partition"]) for row in found} == {("g", "orders", 3)}
    values = [[row[name] for name in NAMES[3:]] for row in found]
    assert values == [
        [7, "checkpoint", 2, None, 4, 5, -1, 1, 1, 2, 2, 1, 1_500_000, None],
        [7, "checkpoint", 2, None, 4, 5, -1, 1, 4, 4, 0, 3, 1_500_000, 2_500_000],
        [9, "delta", 2, 8, None, None, 6, 0, None, None, None, None, None, None],
        [11, "tombstone", None, None, None, None, None, None, None, None, None, None, None, None],
        [7, "answer", 2, None, 0, 0, 6, 0, None, None, None, None, None, None],
    ]


def test_unreadable_log_is_a_row() -> None:
    assert unreadable(PLACE) == ("g", "orders", 3, None, "unreadable", *[None] * (len(COLUMNS) - 5))
    assert list(rows(PLACE, (), None)) == []
