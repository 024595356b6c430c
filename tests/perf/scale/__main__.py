"""`make scale` prints the size that a load needs; `make bench-scale` measures what the model needs."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from tests.perf.processes import interruptible
from tests.perf.report import machine
from tests.perf.scale import figures
from tests.perf.scale.figures import Measurements
from tests.perf.scale.measure import PROGRAMS, Layout, Outcome, idle, measured, per_share_partition
from tests.perf.scale.model import Limits, Load

RECORDS: Final = {"publish": 400_000, "range": 400_000, "each": 400_000, "waiting": 60_000}
GROUPS: Final = (40, 200)
IDLE_SECONDS: Final = 20.0

application = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)


@application.command()
def measure(
    quick: Annotated[bool, typer.Option(help="A tenth of the records; its figures are too short.")] = False,
    file: Annotated[Path, typer.Option(help="Where the figures go.")] = figures.FILE,
) -> None:
    """Measure every size that this machine can run, and write the figures and the tables of docs/scale.md."""
    progress = Console(stderr=True)
    records = {program: count // (10 if quick else 1) for program, count in RECORDS.items()}
    steps = len(figures.LAYOUTS) + len(GROUPS)
    outcomes: dict[Layout, dict[str, Outcome]] = {}
    with interruptible():
        for number, layout in enumerate(figures.LAYOUTS, 1):
            progress.print(f"{number} of {steps}: {layout.label}", style="dim")
            outcomes[layout] = measured(layout, records)
        rests = []
        for number, groups in enumerate(GROUPS, len(figures.LAYOUTS) + 1):
            progress.print(f"{number} of {steps}: {groups} idle groups", style="dim")
            rests.append(idle(groups, IDLE_SECONDS))
        where = f"{machine()}, {datetime.now(UTC):%Y-%m-%d}"
        found = Measurements(where, os.cpu_count() or 1, outcomes, per_share_partition(*rests))
        file.write_text(found.as_json())
        typer.echo(figures.predictions(found))


@application.command()
def document() -> None:
    """Write the tables of docs/scale.md from the figures."""
    found = Measurements.parse(figures.FILE.read_text())
    figures.DOCUMENT.write_text(figures.with_tables(figures.DOCUMENT.read_text(), found))


@application.command()
def size(
    rate: Annotated[float, typer.Option(min=0, help="Records per second.")],
    memory: Annotated[float, typer.Option(min=0, help="Bytes of Redis' memory per record.")] = figures.RECORD,
    hours: Annotated[float, typer.Option(min=0, help="Hours for which records are kept.")] = 1.0,
    groups: Annotated[int, typer.Option(min=0, help="Share groups that finish every record.")] = 1,
    share_partitions: Annotated[int, typer.Option(min=0, help="Share-partitions, idle ones too.")] = 0,
    utilisation: Annotated[float, typer.Option(min=0.05, max=1, help="How busy a process may be.")] = 0.6,
    shard_gigabytes: Annotated[float, typer.Option(min=0.1, help="Memory of a Redis shard.")] = 64.0,
) -> None:
    """Print the size for a load: `make scale SCALE='--rate 1000000 --hours 24'`."""
    found = Measurements.parse(figures.FILE.read_text())
    load = Load(rate, memory, hours * figures.HOUR, groups, share_partitions)
    name = f"{rate:,.0f} records/s, {groups} groups, kept for {hours:g} hours"
    typer.echo(figures.sizes(found, {name: load}, Limits(utilisation, shard_gigabytes * 1e9)))
    typer.echo(f"\nFrom the demands measured on {found.machine}. Programs: {', '.join(PROGRAMS.values())}.")


if __name__ == "__main__":
    application()
