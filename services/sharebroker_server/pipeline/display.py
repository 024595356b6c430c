"""Output for users: progress while Spark runs, tables and a verdict at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sharebroker.cli.output import columns, console, print_notice, stderr, table
from sharebroker_server.pipeline.spark_process import SparkRun

Rows = Sequence[dict[str, Any]]

_MOST_ROWS: Final = 24
"""The largest number of rows of a project's table that is printed."""
_COUNTS: Final = ("passed#", "accepted#", "archived#", "to_try_again# TO REDELIVER")
_RATES: Final = ("deliveries_per_record# DELIVERIES/RECORD", "redelivery_rate# REDELIVERED")
_SECONDS: Final = ("records#", "seconds_p50# P50 S", "seconds_p95# P95 S", "seconds_max# MAX S")
_OFFSETS: Final = ("partition#", "first_offset# FIRST", "last_offset# LAST")
_SHOWN: Final = {
    "rejected": ("Rejected records", ("reason", "records#")),
    "deliveries": (
        "Deliveries of the pipeline's records; seconds from publishing to reading",
        ("delivery_count", *_SECONDS),
    ),
    "health": (
        "Work queues, from their state logs",
        ("group", "share_partitions# SHARE-PARTITIONS", "log_records#", *_COUNTS, *_RATES, "differences#"),
    ),
    "accept": ("Seconds from publishing to acceptance, for records in the logs", ("group", *_SECONDS)),
    "differences": ("Differences", ("group", "topic", *_OFFSETS, "text WHAT")),
}
"""The tables that are printed: title and columns."""


@contextmanager
def progress() -> Iterator[Callable[[SparkRun], None]]:
    """Yields a function that shows the progress on standard error.

    It shows a bar in a terminal, and a line per change elsewhere.
    """
    terminal = stderr().is_terminal
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    last_line = ""

    def show(run: SparkRun) -> None:
        nonlocal last_line
        if terminal:
            total = len(run.flows) or None
            bar.update(task, completed=run.done, total=total, description=run.stage)
            return
        text = f"{run.done} of {len(run.flows)} tables, {run.stage}" if run.working else run.stage
        if text != last_line:
            last_line = text
            print_notice(text)

    with Progress(*parts, console=stderr(), transient=True, disable=not terminal) as bar:
        task = bar.add_task("starting Spark", total=None)
        yield show


def print_tables(tables: dict[str, Rows]) -> None:
    """Prints the short tables; the report contains the others."""
    for section in tables["sections"]:
        rows = tables[section["name"]]
        if 0 < len(rows) <= _MOST_ROWS:
            shown = columns(*(f"{name}#" if _has_numbers(rows, name) else name for name in rows[0]))
            console().print(table(rows, shown, section["title"]), "")
    for name, (title, keys) in _SHOWN.items():
        if tables[name]:
            console().print(table(tables[name], columns(*keys), title), "")
    (totals,) = tables["totals"]
    poison = tables["poison_total"][0]["records"]
    console().print(
        f"{totals['bronze']:,} records read, {totals['silver']:,} valid rows, "
        f"{totals['rejected']:,} rejected; "
        f"{poison:,} on the poison list.",
        highlight=False,
    )


def _has_numbers(rows: Rows, name: str) -> bool:
    return any(isinstance(row[name], int | float) for row in rows)


def verdict(tables: dict[str, Rows]) -> str:
    """Returns a sentence: whether the coordinator's state matches its logs."""
    (totals,) = tables["totals"]
    logs, records = totals["share_partitions"], totals["log_records"]
    checked = f"{logs:,} share-partitions, {records:,} records of their logs replayed"
    if totals["differences"]:
        return f"{checked}: {totals['differences']:,} differences from the coordinator's state."
    return f"{checked}: no difference from the coordinator's state."
