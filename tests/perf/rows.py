"""Compares two equal servers, on one of which more happens: the rows, their aims, and the loop over pairs.

A row is what happens on the second server. Each of its programs runs on both servers of a pair in slices, in
the order A B B A (`slices.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import typer
from rich.console import Console

from tests.perf.clients import Work
from tests.perf.compare import Comparison, Outcomes, Side, comparisons, measure, short, table
from tests.perf.processes import run_client
from tests.perf.report import machine
from tests.perf.servers import Serving, serving
from tests.perf.slices import MEASURED, Sliced, each_in_slices

CLIENT_SECONDS: Final = 180.0
FIGURES: Final = ("rate", "server_cpu", "delivered")


@dataclass(frozen=True, slots=True)
class Row:
    """The heads of the row's table: both sides, and their ratio. `cases` are its programs, with their labels.

    The ratio of rates must reach `aim`.
    """

    heads: tuple[str, str, str]
    aim: float
    cases: Mapping[str, str]


Rows = Mapping[str, Row]


def labels(rows: Rows) -> dict[str, str]:
    """Returns the labels of all programs; a program is named by its row and its case."""
    return {f"{name} {case}": label for name, row in rows.items() for case, label in row.cases.items()}


def below_aims(rows: Rows, found: Sequence[Comparison]) -> list[str]:
    """Returns a sentence for each rate whose ratio is below the aim of its row."""
    named = labels(rows)
    return [
        f"{named[one.program]}, {name}: {one.ratio:.3f} is below {rows[name].aim}"
        for one in found
        for name in one.program.split()[:1]
        if one.figure == "rate" and one.ratio < rows[name].aim
    ]


def tables(rows: Rows, found: Sequence[Comparison]) -> str:
    """Returns one table per row, with the names of its sides."""
    return "\n\n".join(
        table([one for one in found if one.program.split()[0] == name], row.heads, labels(rows))
        for name, row in rows.items()
    )


@dataclass(frozen=True, slots=True)
class Pairs:
    """Runs pairs of servers; `server` starts that of a side in a folder."""

    rows: Rows
    server: Callable[[Side, Path], AbstractContextManager[Sliced]]

    def pair(self, folder: Path, order: Sequence[Side]) -> Outcomes:
        """One pair: each program on both servers, in slices. Raises BenchFailed."""
        with ExitStack() as stack:
            servers = {side: stack.enter_context(self.server(side, folder / side)) for side in order}
            yield from each_in_slices(servers, list(labels(self.rows)), order)

    def run(self, number: int, seconds: float) -> tuple[list[Comparison], list[str]]:
        """Runs this many pairs of about `seconds` each, and prints the tables.

        Returns the comparisons and a sentence for each failure.
        """
        progress = Console(stderr=True)
        progress.print(f"time to expect: {expected(number, seconds)}", style="dim")
        begun = time.monotonic()
        figures, failures = measure(self, number, progress)
        found = [one for one in comparisons(figures) if one.figure in FIGURES]
        took = f"{(time.monotonic() - begun) / 60:.0f} minutes"
        typer.echo(f"--fsync everysec, medians of {number} pairs, {took}. {machine()}\n")
        typer.echo(f"{tables(self.rows, found)}\n")
        return found, failures


def expected(pairs: int, seconds: float) -> str:
    """Returns the time that pairs of about `seconds` take, in words."""
    total = pairs * seconds
    return f"{total:.0f} seconds" if total < 120 else f"{total / 60:.0f} minutes"


@contextmanager
def server_in(folder: Path, options: Sequence[str]) -> Iterator[Serving]:
    """Starts a server in a folder of its own."""
    folder.mkdir()
    with serving(folder, "everysec", options=options) as server:
        yield server


def run_program(case: str, work: Work, limit: float = CLIENT_SECONDS) -> dict[str, float]:
    """Runs a client program for at most `limit` seconds; returns its figures. Raises BenchFailed."""
    return {short(key): value for key, value in run_client(case, asdict(work), limit).items()}


def run_slice(server: Serving, case: str, work: Work) -> dict[str, float]:
    """Runs a slice of a client program; returns its figures, with CPU in µs a record. Raises BenchFailed."""
    before = server.cpu_seconds()
    figures = run_program(case, work)
    used = server.cpu_seconds() - before
    return figures | {"server_cpu": used / work.records * 1e6, MEASURED: work.records}
