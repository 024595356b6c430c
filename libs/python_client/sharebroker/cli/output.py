"""What commands print: the same data as a table for people or as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from rich.console import Console
from rich.table import Table

Row = Mapping[str, Any]

_WIDE: Final = 500


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, the row's key, and whether it holds numbers."""

    heading: str
    key: str
    number: bool = False


def console() -> Console:
    """Standard output; wide enough for any line where it is no terminal."""
    shown = Console()
    return shown if shown.is_terminal else Console(width=_WIDE)


def table(rows: Sequence[Row], columns: Sequence[Column], title: str | None = None) -> Table:
    """Rows as a table without frame."""
    made = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if column.number else "left"
        made.add_column(column.heading, justify=justify, overflow="fold", no_wrap=index == 0)
    for row in rows:
        made.add_row(*(cell(row.get(column.key)) for column in columns))
    return made


def cell(value: object) -> str:
    """A value as people read it; `-` where there is none."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "-"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def numbers(values: Sequence[int]) -> str:
    """Whole numbers with runs joined: 0-3, 7."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and runs[-1][1] + 1 == value:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def text(data: bytes | None) -> str | None:
    """Bytes as text; what is not UTF-8 shows as replacement characters."""
    return None if data is None else data.decode("utf-8", "replace")


def print_json(data: object) -> None:
    """One JSON document."""
    console().print_json(json.dumps(data), indent=2)


def print_rows(rows: Sequence[Row], columns: Sequence[Column], as_json: bool, nothing: str) -> None:
    """A table or a JSON list; `nothing` is what people read where there are no rows."""
    if as_json:
        print_json([dict(row) for row in rows])
    elif rows:
        console().print(table(rows, columns))
    else:
        say(nothing)


def print_facts(facts: Row) -> None:
    """Names and values, one a line."""
    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, value in facts.items():
        made.add_row(name, cell(value))
    console().print(made)


def stderr() -> Console:
    """Standard error, for what is beside the data."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    """A remark for people, beside the data."""
    stderr().print(message, markup=False)
