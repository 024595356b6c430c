"""Prints the figures as a table or as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from tests.perf.figures import CASES, Figure, Figures, medians
from tests.perf.servers import Fsync

Results = Mapping[Fsync, Sequence[Figures]]
"""Figures of every run, by durability."""

HELD_TO: Fsync = "everysec"
"""The durability that the aims are for: Kafka and JetStream promise the same."""


def as_json(results: Results, failures: Sequence[str]) -> str:
    """Returns medians and every run, with the aims and whether they were met."""
    middle = {fsync: medians(runs) for fsync, runs in results.items()}
    document = {
        "machine": machine(),
        "figures": [
            {
                "key": figure.key,
                "case": case.title,
                "label": figure.label,
                "unit": figure.unit,
                "aim": figure.aim,
                "median": {
                    fsync: found[figure.key] for fsync, found in middle.items() if figure.key in found
                },
                "met": _met(figure, middle),
            }
            for case in CASES
            for figure in case.figures
            if any(figure.key in found for found in middle.values())
        ],
        "runs": {fsync: list(runs) for fsync, runs in results.items()},
        "failures": list(failures),
    }
    return json.dumps(document, indent=2)


def show(results: Results, failures: Sequence[str], console: Console) -> None:
    """Prints a table of the medians, with the lowest and highest value of several runs."""
    middle = {fsync: medians(runs) for fsync, runs in results.items()}
    runs = max((len(found) for found in results.values()), default=0)
    table = Table(title=f"Sharebroker, 100-byte records, medians of {runs} runs. {machine()}")
    table.add_column("Case", max_width=64)
    for fsync in results:
        table.add_column(f"appendfsync {fsync}", justify="right")
    table.add_column(f"Aim ({HELD_TO})", justify="right")
    table.add_column("")
    for case in CASES:
        figures = [figure for figure in case.figures if any(figure.key in found for found in middle.values())]
        if figures:
            table.add_section()
            table.add_row(f"[bold]{case.title}[/]")
        for figure in figures:
            cells = [
                _cell(figure, [run[figure.key] for run in results[f] if figure.key in run]) for f in results
            ]
            table.add_row(f"  {figure.label}", *cells, _aim(figure), _verdict(_met(figure, middle)))
    console.print(table)
    for failure in failures:
        console.print(f"[red]failed[/] {failure}")


def machine() -> str:
    """Describes the machine in one line."""
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, load {load:.1f}"


def _met(figure: Figure, middle: Mapping[Fsync, Figures]) -> bool | None:
    found = middle.get(HELD_TO, {})
    return figure.met(found[figure.key]) if figure.key in found else None


def _verdict(met: bool | None) -> str:
    return {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[met]


def _aim(figure: Figure) -> str:
    if figure.aim is None:
        return ""
    return f"{'≥' if figure.more_is_better else '≤'} {_number(figure, figure.aim)}"


def _cell(figure: Figure, values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle = medians([{figure.key: value} for value in values])[figure.key]
    spread = f" [dim]({_bare(figure, min(values))} to {_bare(figure, max(values))})[/]" if values[1:] else ""
    return f"{_number(figure, middle)}{spread}"


def _number(figure: Figure, value: float) -> str:
    return f"{_bare(figure, value)} {figure.unit if figure.unit != 'us' else 'µs'}"


def _bare(figure: Figure, value: float) -> str:
    return f"{value:,.0f}" if figure.unit == "records/s" or value >= 1000 else f"{value:,.2f}"
