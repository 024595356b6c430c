"""The state log of a share-partition as an Arrow table, folded into one row (`applyInArrow`)."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from sharebroker_server.pipeline.core.fold import Entry, Run, Standing
from sharebroker_server.pipeline.core.history import told
from sharebroker_server.pipeline.core.verification import check

PLACE: Final = ("group", "topic", "partition")
_PLACE: Final = [("group", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
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
]
_DIFFERENCE: Final = [("first_offset", pa.int64()), ("last_offset", pa.int64()), ("text", pa.string())]
_TOLD: Final = [
    ("first_offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("fate", pa.string()),
    ("delivery_count", pa.int32()),
    ("finished_at", _TIME),
]

LOG: Final = pa.schema([*_PLACE, *_OF_RECORD])
"""What `folded` takes: the columns of the format sharegroup-state."""
FOLDED: Final = pa.schema(
    [
        *_PLACE,
        ("records", pa.int32()),
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("start_offset", pa.int64()),
        ("differences", pa.list_(pa.struct(_DIFFERENCE))),
        ("history", pa.list_(pa.struct(_TOLD))),
        ("log", pa.list_(pa.struct(_OF_RECORD))),
    ]
)
"""What it gives: one row, so that the log and what it comes to are of one moment."""


def folded(table: pa.Table) -> pa.Table:
    """One share-partition's rows: what they come to, how that differs from the answer, and what they tell."""
    rows: list[dict[str, Any]] = table.to_pylist()
    entries = entries_of(rows)
    result = check(entries)
    state = result.state
    row = {
        **{name: rows[0][name] for name in PLACE},
        "records": result.records,
        "state_epoch": state.state_epoch if state else None,
        "leader_epoch": state.leader_epoch if state else None,
        "start_offset": state.start_offset if state else None,
        "differences": [one._asdict() for one in result.differences],
        "history": [
            {
                "first_offset": one.first,
                "last_offset": one.last,
                "fate": one.fate,
                "delivery_count": one.deliveries,
                "finished_at": None if one.finished_at_ms is None else one.finished_at_ms * 1000,
            }
            for one in told(entries)
        ],
        "log": [{name: value for name, value in row.items() if name not in PLACE} for row in rows],
    }
    return pa.Table.from_pylist([row], schema=FOLDED)


def entries_of(rows: list[dict[str, Any]]) -> list[Entry]:
    """Rows of one share-partition, in any order, as records of its log."""
    found: dict[tuple[str, int | None], Entry] = {}
    for row in rows:
        key = (row["kind"], row["position"])
        runs = found[key].runs if key in found else ()
        if row["first_offset"] is not None:
            standing = Standing(row["delivery_count"], row["delivery_state"])
            runs = (*runs, Run(row["first_offset"], row["last_offset"], standing))
        written = row["written_at"]
        found[key] = Entry(
            row["position"] or 0,
            row["kind"],
            row["checkpoint_epoch"] or 0,
            row["state_epoch"],
            row["leader_epoch"],
            row["start_offset"],
            None if written is None else round(written.timestamp() * 1000),
            runs,
        )
    return list(found.values())
