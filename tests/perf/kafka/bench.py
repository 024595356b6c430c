"""`make bench-kafka`: Sharebroker beside a real Kafka 4.3.1, driven by the same programs on the same machine.

Each run starts each system by itself in fresh folders, one after the other in turn, and prints medians.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from tests.perf.figures import Figures
from tests.perf.kafka import report
from tests.perf.kafka.programs import QUICK, Programs, Sizes
from tests.perf.processes import BenchFailed
from tests.support.kafka_clusters import Cluster, ClusterFailed, RealCluster, SharebrokerCluster
from tests.support.kafka_jars import CLIENTS, SERVER, is_there
from tests.support.kafka_tools import ToolFailed

KAFKA_FLAGS: Final = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""What Kafka's start script gives its JVM."""

SYSTEMS: Final[dict[str, Callable[[Path], Cluster]]] = {
    report.KAFKA: lambda folder: RealCluster(folder, 1, {}, KAFKA_FLAGS),
    report.LIKE_FOR_LIKE: lambda folder: SharebrokerCluster(folder, 1, {}, ("--fsync", "everysec")),
    report.DURABLE: lambda folder: SharebrokerCluster(folder, 1, {}, ("--fsync", "always")),
}


def measure(system: str, folder: Path, sizes: Sizes, only: Collection[str]) -> tuple[Figures, list[str]]:
    """One run on one system: its figures, and what failed."""
    cluster = SYSTEMS[system](folder)
    figures: dict[str, float] = {}
    failures: list[str] = []
    try:
        cluster.start()
        programs = Programs(cluster, sizes)
        programs.make_topics()
        for name, program in programs.all():
            if only and name not in only and name != "producer":
                continue
            try:
                figures |= {f"{name}.{key}": value for key, value in program().items()}
            except BenchFailed as failure:
                failures.append(f"{name}, {system}: {failure}")
    except (BenchFailed, ClusterFailed, ToolFailed) as failure:
        failures.append(f"{system}: {failure}")
    finally:
        cluster.stop()
    return figures, failures


def main(
    runs: Annotated[int, typer.Option(min=1, max=20, help="Runs; the table has their medians.")] = 3,
    quick: Annotated[bool, typer.Option(help="One short run: is it about right?")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, every run with it.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Only these programs, as producer or single.")
    ] = None,
    system: Annotated[list[str] | None, typer.Option(help="Only systems whose name has this in it.")] = None,
) -> None:
    """Measure both, and print the figures side by side."""
    progress = Console(stderr=True)
    if not (is_there(SERVER) and is_there(CLIENTS["4.3.1"])):
        progress.print("Kafka's jars are missing: make kafka")
        raise typer.Exit(2)
    results: dict[str, list[Figures]] = {}
    failures: list[str] = []
    for turn in range(1 if quick else runs):
        for name in SYSTEMS:
            if system and not any(part in name for part in system):
                continue
            progress.print(f"run {turn + 1}, {name}", style="dim")
            with tempfile.TemporaryDirectory(prefix="sharebroker-bench-") as place:
                figures, failed = measure(name, Path(place), QUICK if quick else Sizes(), only or ())
            results.setdefault(name, []).append(figures)
            failures += failed
    if as_json:
        typer.echo(report.as_json(results, failures))
    else:
        report.show(results, failures, Console(width=None if progress.is_terminal else 160))
    raise typer.Exit(1 if failures else 0)


if __name__ == "__main__":
    typer.run(main)
