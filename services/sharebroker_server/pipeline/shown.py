"""What people see: progress while Spark works, tables and a verdict at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from sharebroker.cli.output import Column, console, print_notice, stderr, table
from sharebroker_server.pipeline.core.events import Run

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
    Column("TO TRY AGAIN", "to_try_again", number=True),
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
    ("Work queues, by their state logs", "health", _HEALTH),
    (
        "Seconds from publishing to acceptance, as far as the logs reach back",
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


class Shown:
    """The progress of a run: a bar in a terminal, a line where something changes elsewhere."""

    def __init__(self, progress: Progress, task: TaskID, *, bar: bool) -> None:
        self._progress = progress
        self._task = task
        self._bar = bar
        self._said = ""

    def show(self, run: Run) -> None:
        """Where the run stands."""
        if self._bar:
            total = len(run.flows) or None
            self._progress.update(self._task, completed=run.done, total=total, description=run.stage)
            return
        text = f"{run.done} of {len(run.flows)} tables, {run.stage}" if run.working else run.stage
        if text != self._said:
            self._said = text
            print_notice(text)


@contextmanager
def progress() -> Iterator[Shown]:
    """Shows on standard error."""
    terminal = stderr().is_terminal
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True, disable=not terminal) as bar:
        yield Shown(bar, bar.add_task("starting Spark", total=None), bar=terminal)


def print_tables(tables: dict[str, Rows]) -> None:
    """The short ones; the rest is in the report."""
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
    """Whether the coordinator says what its logs come to."""
    (totals,) = tables["totals"]
    logs, records = totals["share_partitions"], totals["log_records"]
    looked = f"{logs:,} share-partitions, {records:,} records of their logs folded anew"
    if totals["differences"]:
        return f"{looked}: {totals['differences']:,} differences to the coordinator's answers."
    return f"{looked}: no difference to the coordinator's answers."
