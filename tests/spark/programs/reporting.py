"""Writes the report of given tables into a folder; a stand-in for Spark answers its queries."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sharebroker_server.pipeline.project import folder_of, read
from sharebroker_server.pipeline.report import TABLES, write_report
from sharebroker_server.pipeline.settings import Settings

PROJECT, DEFINITION = read(folder_of("example:flights"), topic="<i>flights</i>")
NAMES = {query: name for name, query in TABLES.items()} | {
    section.query: name for name, section in DEFINITION.report.items()
}
SETTINGS = Settings("h:1", PROJECT, "", {}, 10, "2026-01-01 09:00:00")


class Frame:
    """The rows of a query."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def limit(self, count: int) -> Frame:
        return Frame(self._rows[:count])

    def collect(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(asDict=lambda row=row, **_: row) for row in self._rows]


class Spark:
    """A session with tables."""

    def __init__(self, tables: dict[str, list[dict[str, Any]]]) -> None:
        self._tables = tables

    def sql(self, query: str) -> Frame:
        return Frame(self._tables.get(NAMES[query], []))


tables = json.loads(Path(sys.argv[1]).read_text())
folder = Path(sys.argv[2])
write_report(Spark(tables), SETTINGS, folder)
sys.stdout.write(json.dumps({"files": sorted(path.name for path in folder.iterdir())}) + "\n")
