"""Replays logs, given as a JSON list of lists of rows, each into its row; without starting Spark."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from sharebroker_server.pipeline.state_replay import FOLDED, LOG, folded


def table(rows: list[dict[str, Any]]) -> pa.Table:
    timed = [row | {name: time(row[name]) for name in ("written_at", "not_before")} for row in rows]
    return pa.Table.from_pylist(timed, schema=LOG)


def time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


results = [folded(table(rows)) for rows in json.loads(Path(sys.argv[1]).read_text())]
assert all(result.schema == FOLDED for result in results)
rows = [result.to_pylist() for result in results]
sys.stdout.write(json.dumps({"rows": rows}, default=str) + "\n")
