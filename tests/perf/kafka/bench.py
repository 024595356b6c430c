"""`make bench-kafka`: Sharebroker beside a real Kafka 4.3.1, driven by the same programs on the same machine.

In each run each system is started alone in a fresh folder, one after the other; the table has the medians of
the runs. A program counts from the moment its rate is steady.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from tests.perf.figures import Figures
from tests.perf.kafka import report
from tests.perf.kafka.programs import JAVA_VARIABLES, OVER_TLS, PLAIN, QUICK, Programs, Sizes, Target
from tests.perf.kafka.systems import (
    SYSTEMS,
    UPSTREAM_PROGRAMS,
    UPSTREAM_SYSTEMS,
    describe,
    describe_clients,
)
from tests.perf.processes import BenchFailed, interruptible
from tests.support.kafka_jars import CLIENTS, SERVER, is_there
from tests.support.kafka_tools import ToolFailed

TLS: Final = "tls_"
NAMES: Final = (*PLAIN, *(f"{TLS}{name}" for name in OVER_TLS))


@dataclass
class Outcome:
    """The results of a run on one system: figures, failures, notes, and the system's versions and flags."""

    turn: int = 1
    figures: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    description: str = ""


def measure(system: str, folder: Path, sizes: Sizes, names: Collection[str], outcome: Outcome) -> None:
    """Makes one run on one system, without TLS and with it; `outcome` takes the results as they come."""
    for tls in (False, True):
        wanted = [name.removeprefix(TLS) for name in NAMES if name in names and name.startswith(TLS) == tls]
        if not wanted:
            continue
        place = folder / ("tls" if tls else "plain")
        place.mkdir()
        try:
            with {**SYSTEMS, **UPSTREAM_SYSTEMS}[system](place, tls) as target:
                outcome.description = outcome.description or describe(system, target)
                _run(system, target, sizes, wanted, TLS if tls else "", outcome)
        except (BenchFailed, ToolFailed) as failure:
            outcome.failures.append(f"{system}{', TLS' if tls else ''}: {failure}")


def _run(
    system: str, target: Target, sizes: Sizes, wanted: Sequence[str], prefix: str, outcome: Outcome
) -> None:
    programs = Programs(target, sizes, outcome.notes, f"{system}, {prefix}")
    filled = programs.prepare(wanted)
    if not prefix:
        outcome.figures |= {f"memory.{key}": value for key, value in filled.items()}
    for name in wanted:
        try:
            found = programs.run(name)
        except BenchFailed as failure:
            outcome.failures.append(f"{prefix}{name}, {system}: {failure}")
            continue
        outcome.figures |= {f"{prefix}{name}.{key}": value for key, value in found.items()}
        most = max(outcome.figures.get("memory.most", 0.0), found.get("rss", 0.0))
        outcome.figures |= {"memory.most": most} if most else {}


def main(
    runs: Annotated[int, typer.Option(min=1, max=20, help="Runs; the table has their medians.")] = 3,
    quick: Annotated[bool, typer.Option(help="One short run: is it about right?")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, every run with it.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help=f"Only these programs, of {', '.join(NAMES)}.")
    ] = None,
    system: Annotated[list[str] | None, typer.Option(help="Only systems with this in their names.")] = None,
    upstream: Annotated[bool, typer.Option(help="Share consumers over topics of Kafka as well.")] = False,
) -> None:
    """Measure both systems, and print the figures side by side."""
    progress = Console(stderr=True)
    if not (is_there(SERVER) and is_there(CLIENTS["4.3.1"])):
        progress.print("Kafka's jars are missing: make kafka")
        raise typer.Exit(2)
    if unknown := set(only or ()) - set(NAMES):
        progress.print(f"no such program: {', '.join(sorted(unknown))}")
        raise typer.Exit(2)
    for variable in JAVA_VARIABLES:
        os.environ.pop(variable, None)
    known = UPSTREAM_SYSTEMS if upstream else SYSTEMS
    systems = [name for name in known if not system or any(part in name for part in system)]
    sizes, names = QUICK if quick else Sizes(), only or (UPSTREAM_PROGRAMS if upstream else NAMES)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in systems}
    with interruptible():
        for turn in range(1 if quick else runs):
            for name in systems:
                progress.print(f"run {turn + 1}, {name}", style="dim")
                outcomes[name].append(Outcome(turn=turn + 1))
                with tempfile.TemporaryDirectory(prefix="sharebroker-bench-") as place:
                    measure(name, Path(place), sizes, names, outcomes[name][-1])
    remarks = _remarks(outcomes)
    results = {name: [outcome.figures for outcome in found] for name, found in outcomes.items()}
    _show(results, remarks, as_json, progress.is_terminal)
    raise typer.Exit(1 if remarks.failures else 0)


def _remarks(outcomes: Mapping[str, Sequence[Outcome]]) -> report.Remarks:
    every = [outcome for found in outcomes.values() for outcome in found]
    about = dict.fromkeys(outcome.description for outcome in every if outcome.description)
    notes = [f"run {outcome.turn}: {note}" for outcome in every for note in outcome.notes]
    failures = [f"run {outcome.turn}: {failure}" for outcome in every for failure in outcome.failures]
    return report.Remarks([*about, describe_clients()], notes, failures)


def _show(
    results: Mapping[str, Sequence[Figures]], remarks: report.Remarks, as_json: bool, is_terminal: bool
) -> None:
    if as_json:
        typer.echo(report.as_json(results, remarks))
    else:
        report.show(results, remarks, Console(width=None if is_terminal else 180))


if __name__ == "__main__":
    typer.run(main)
