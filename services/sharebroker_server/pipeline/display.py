"""Output for users: progress while Spark runs, tables and a verdict at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from sharebroker.cli.output import Column, console, print_notice, stderr, table
from sharebroker_server.pipeline.spark_process import Run

Rows = Sequence[dict[str, Any]]

_DELAYS: Final = (
    Column("FLIGHTS", "flights", number=True),
    Column("DEPARTURE MIN", "departure_minutes", number=True),
    Column("ARRIVAL MIN", "arrival_minutes", number=True),
    Column("90 %", "arrival_minutes_p90", number=True),
    Column("LATE", "late_share", number=True),
)
_HEALTH: Final = (
    Column("GROUP", "group"),
    Column("SHARE-PARTITIONS", "share_partitions", number=True),
    Column("LOG RECORDS", "log_records", number=True),
    Column("PASSED", "passed", number=True),
    Column("ACCEPTED", "accepted", number=True),
    Column("ARCHIVED", "archived", number=True),
    Column("TO REDELIVER", "to_try_again", number=True),
    Column("DELIVERIES/RECORD", "deliveries_per_record", number=True),
    Column("REDELIVERED", "redelivery_rate", number=True),
    Column("DIFFERENCES", "differences", number=True),
)
_SECONDS: Final = (
    Column("P50 S", "seconds_p50", number=True),
    Column("P95 S", "seconds_p95", number=True),
    Column("MAX S", "seconds_max", number=True),
)
_RECORDS: Final = Column("RECORDS", "records", number=True)
_SHOWN: Final = (
    ("Delay by carrier", "carriers", (Column("CARRIER", "carrier"), *_DELAYS)),
    ("Rejected rows", "rejected", (Column("REASON", "reason"), _RECORDS)),
    (
        "Deliveries of the pipeline's records; seconds from publishing to reading",
        "deliveries",
        (Column("DELIVERY COUNT", "delivery_count"), _RECORDS, *_SECONDS),
    ),
    ("Work queues, from their state logs", "health", _HEALTH),
    (
        "Seconds from publishing to acceptance, for records in the logs",
        "accept",
        (Column("GROUP", "group"), _RECORDS, *_SECONDS),
    ),
    (
        "Differences",
        "differences",
        (
            Column("GROUP", "group"),
            Column("TOPIC", "topic"),
            Column("PARTITION", "partition", number=True),
            Column("FIRST", "first_offset", number=True),
            Column("LAST", "last_offset", number=True),
            Column("WHAT", "text"),
        ),
    ),
)


class ProgressDisplay:
    """The progress of a run: a bar in a terminal, a line per change elsewhere."""

    def __init__(self, progress: Progress, task: TaskID, *, bar: bool) -> None:
        self._progress = progress
        self._task = task
        self._bar = bar
        self._last_line = ""

    def show(self, run: Run) -> None:
        """Shows the progress."""
        if self._bar:
            total = len(run.flows) or None
            self._progress.update(self._task, completed=run.done, total=total, description=run.stage)
            return
        text = f"{run.done} of {len(run.flows)} tables, {run.stage}" if run.working else run.stage
        if text != self._last_line:
            self._last_line = text
            print_notice(text)


@contextmanager
def progress() -> Iterator[ProgressDisplay]:
    """Shows the progress on standard error."""
    terminal = stderr().is_terminal
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True, disable=not terminal) as bar:
        yield ProgressDisplay(bar, bar.add_task("starting Spark", total=None), bar=terminal)


def print_tables(tables: dict[str, Rows]) -> None:
    """Prints the short tables; the report contains the others."""
    for title, name, columns in _SHOWN:
        if tables[name]:
            console().print(table(tables[name], columns, title), "")
    (totals,) = tables["totals"]
    poison = tables["poison_total"][0]["records"]
    console().print(
        f"{totals['bronze']:,} records read, {totals['silver']:,} flights, {totals['rejected']:,} rejected; "
        f"{poison:,} on the poison list.",
        highlight=False,
    )


def verdict(tables: dict[str, Rows]) -> str:
    """Returns a sentence: whether the coordinator's state matches its logs."""
    (totals,) = tables["totals"]
    logs, records = totals["share_partitions"], totals["log_records"]
    checked = f"{logs:,} share-partitions, {records:,} records of their logs replayed"
    if totals["differences"]:
        return f"{checked}: {totals['differences']:,} differences from the coordinator's state."
    return f"{checked}: no difference from the coordinator's state."
