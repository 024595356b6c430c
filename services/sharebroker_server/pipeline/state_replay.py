"""Replays the state log of a share-partition, given as an Arrow table, into one row (`applyInArrow`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from sharebroker_server.pipeline.core.state_log import OffsetStatus, Run, StateLogEntry, check, outcomes_of

KEY: Final = ("group", "topic", "partition")
_STATE: Final = ("state_epoch", "leader_epoch", "start_offset")
_KEY_FIELDS: Final = [("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
_TIME: Final = pa.timestamp("us", "UTC")
_OF_RECORD: Final = [
    ("position", pa.int64()),
    ("kind", pa.string()),
    ("checkpoint_epoch", pa.int32()),
    ("delta_index", pa.int32()),
    ("state_epoch", pa.int32()),
    ("leader_epoch", pa.int32()),
    ("start_offset", pa.int64()),
    ("delivery_complete_count", pa.int32()),
    ("first_offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("delivery_state", pa.int32()),
    ("delivery_count", pa.int32()),
    ("written_at", _TIME),
    ("not_before", _TIME),
]
_DIFFERENCE: Final = [("first_offset", pa.int64()), ("last_offset", pa.int64()), ("text", pa.string())]
_OUTCOME: Final = [
    ("first_offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("fate", pa.string()),
    ("delivery_count", pa.int32()),
    ("finished_at", _TIME),
    ("not_before", _TIME),
]

LOG: Final = pa.schema([*_KEY_FIELDS, *_OF_RECORD])
"""The input of `folded`: the columns of the format sharegroup-state."""
FOLDED: Final = pa.schema(
    [
        *_KEY_FIELDS,
        ("records", pa.int32()),
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("start_offset", pa.int64()),
        ("differences", pa.list_(pa.struct(_DIFFERENCE))),
        ("history", pa.list_(pa.struct(_OUTCOME))),
        ("log", pa.list_(pa.struct(_OF_RECORD))),
    ]
)
"""The output of `folded`: one row, so that log and state are of the same moment."""


def folded(table: pa.Table) -> pa.Table:
    """Returns one share-partition's replayed state, differences, outcomes and log."""
    rows: list[dict[str, Any]] = table.to_pylist()
    entries = entries_of(rows)
    result = check(entries)
    row = {
        **{name: rows[0][name] for name in KEY},
        "records": result.records,
        **{name: getattr(result.state, name, None) for name in _STATE},
        "differences": result.differences,
        "history": [
            (*item[:-2], *(None if time is None else time * 1000 for time in item[-2:]))
            for item in outcomes_of(entries)
        ],
        "log": [{name: value for name, value in row.items() if name not in KEY} for row in rows],
    }
    return pa.Table.from_pylist([row], schema=FOLDED)


def entries_of(rows: list[dict[str, Any]]) -> list[StateLogEntry]:
    """Returns the log records of one share-partition; rows may be in any order.

    Rows of older tables have no `not_before`.
    """
    found: dict[tuple[str, int | None], StateLogEntry] = {}
    for row in rows:
        key = (row["kind"], row["position"])
        runs = found[key].runs if key in found else ()
        if row["first_offset"] is not None:
            not_before_ms = _milliseconds(row.get("not_before")) or 0
            status = OffsetStatus(row["delivery_count"], row["delivery_state"], not_before_ms)
            runs = (*runs, Run(row["first_offset"], row["last_offset"], status))
        written_at_ms = _milliseconds(row["written_at"])
        state = {name: row[name] for name in _STATE}
        head = (row["position"] or 0, row["kind"], row["checkpoint_epoch"] or 0)
        found[key] = StateLogEntry(*head, **state, written_at_ms=written_at_ms, runs=runs)
    return list(found.values())


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)
