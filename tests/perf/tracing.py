"""`make bench-tracing`: the cost of traces, as ratios in one run: off, 1 % and all records sampled.

Server and clients send spans to a collector in this process. Variants alternate, so that a change of the
machine's load affects all of them.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Final
from unittest.mock import patch

import typer
from rich.console import Console
from rich.table import Table

from tests.perf.clients import Work
from tests.perf.processes import BenchFailed, run_client
from tests.perf.servers import serving
from tests.support.otlp import Collector, collecting

SECONDS: Final = 300.0
CASES: Final = ("publish", "each")
VARIANTS: Final[Mapping[str, str | None]] = {"off": None, "1 %": "0.01", "100 %": "1.0"}
Runs = dict[str, dict[str, list[float]]]


def main(
    runs: Annotated[int, typer.Option(min=1, max=20, help="Runs of each variant.")] = 5,
    records: Annotated[int, typer.Option(min=1000, help="Records of a run.")] = 1_000_000,
) -> None:
    """Publishes and accepts records with and without traces, and prints medians and ratios."""
    progress = Console(stderr=True)
    found: Runs = {name: defaultdict(list) for name in VARIANTS}
    with collecting() as collector:
        for turn in range(runs):
            for name in _turned([*VARIANTS], turn):
                progress.print(f"run {turn + 1}, {name}", style="dim")
                try:
                    for figure, value in _measured(VARIANTS[name], collector, records).items():
                        found[name][figure].append(value)
                except BenchFailed as failure:
                    progress.print(str(failure), style="red")
    _show(found, Console(width=None if progress.is_terminal else 140))


def _turned(names: list[str], turn: int) -> list[str]:
    cut = turn % len(names)
    return names[cut:] + names[:cut]


def _measured(ratio: str | None, collector: Collector, records: int) -> dict[str, float]:
    """Returns the figures of one run; CPU is in microseconds per record."""
    before, figures = len(collector.requests), dict[str, float]()
    with (
        tempfile.TemporaryDirectory(prefix="sharebroker-bench-") as name,
        _variables(ratio, collector.url),
        serving(Path(name), "everysec") as server,
    ):
        work = Work(server.address, "bench", records=records)
        for case, one in zip(CASES, (work, replace(work, group="each")), strict=True):
            used = server.cpu_seconds()
            client = run_client(case, asdict(one), SECONDS)
            used = server.cpu_seconds() - used
            figures[f"{case} records/s"] = client[f"{case}.rate"]
            figures[f"{case} client CPU"] = client[f"{case}.client_cpu"]
            figures[f"{case} server CPU"] = used / records * 1e6
    figures["spans"] = _count(collector, before)
    return figures


@contextmanager
def _variables(ratio: str | None, endpoint: str) -> Iterator[None]:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}
    with patch.dict(os.environ, {} if ratio is None else variables | {"OTEL_TRACES_SAMPLER_ARG": ratio}):
        yield


def _count(collector: Collector, since: int) -> int:
    return sum(
        len(scope.spans)
        for request in collector.requests[since:]
        for of in request.resource_spans
        for scope in of.scope_spans
    )


def _show(found: Runs, console: Console) -> None:
    table = Table(box=None, pad_edge=False, title="Medians, and their ratios to `off`", title_justify="left")
    table.add_column("")
    for name in VARIANTS:
        table.add_column(name, justify="right")
    for figure in found["off"]:
        base = median(found["off"][figure])
        cells = []
        for name in VARIANTS:
            values = found[name].get(figure)
            cells.append("-" if not values else _cell(median(values), base))
        table.add_row(figure, *cells)
    console.print(table)
    rates = found["off"].get("each records/s", [0.0])
    console.print(f"off, each run's records/s while consuming: {', '.join(f'{rate:,.0f}' for rate in rates)}")


def _cell(value: float, base: float) -> str:
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
    return f"{shown} ({value / base:.2f})" if base else shown


if __name__ == "__main__":
    typer.run(main)
