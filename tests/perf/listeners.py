"""Servers whose programs use both listeners: the Python client over gRPC, and Kafka's clients.

Each program drives both servers of a pair in slices, in the order A B B A (`slices.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import typer
from rich.console import Console

from tests.perf import clients
from tests.perf.clients import Work
from tests.perf.compare import Paired, comparisons, measure, table
from tests.perf.kafka.programs import JAVA_VARIABLES, QUICK, Programs, Sizes
from tests.perf.report import machine
from tests.perf.rows import run_slice
from tests.perf.servers import Serving
from tests.support.kafka_jars import CLIENTS, SERVER, is_there

RECORDS: Final = 2_000_000
QUICK_RECORDS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Driven:
    """A server with the programs that drive it; `work` is that of a slice over gRPC."""

    serving: Serving
    programs: Programs
    work: Work

    def run(self, name: str, number: int) -> dict[str, float]:
        """Runs a slice of a program; returns its figures, with CPU in microseconds a record."""
        if name not in clients.PROGRAMS:
            return dict(self.programs.run(name))
        topic, group = f"{self.work.topic}-{number}", f"{name}-{number}"
        return run_slice(self.serving, name, replace(self.work, topic=topic, group=group))


def available(programs: Sequence[str]) -> Sequence[str]:
    """Returns the programs of Kafka's clients, or none if their jars are missing."""
    for variable in JAVA_VARIABLES:
        os.environ.pop(variable, None)
    if is_there(SERVER) and is_there(CLIENTS["4.3.1"]):
        return programs
    Console(stderr=True).print("Kafka's clients are skipped, since their jars are missing: make kafka")
    return ()


def amounts(quick: bool) -> tuple[Sizes, int]:
    """Returns the amount of work of Kafka's programs, and the records of those over gRPC."""
    return (QUICK, QUICK_RECORDS) if quick else (Sizes(), RECORDS)


def compare(plan: Paired, pairs: int, heads: tuple[str, str, str], what: str) -> None:
    """Runs pairs and prints their table; ends the command with code 1 when something failed."""
    found, failures = measure(plan, pairs, Console(stderr=True))
    rows = [row for row in comparisons(found) if row.figure in ("rate", "server_cpu")]
    typer.echo(f"{what}--fsync everysec, medians of {pairs} pairs. {machine()}\n")
    typer.echo(table(rows, heads))
    for failure in failures:
        typer.echo(f"failed: {failure}")
    raise typer.Exit(1 if failures else 0)
