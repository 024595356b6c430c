"""The figures of both side by side, as a table for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.perf.figures import Figures, medians
from tests.perf.kafka.figures import FIGURES, Figure
from tests.perf.report import machine

KAFKA: Final = "Kafka 4.3.1"
LIKE_FOR_LIKE: Final = "Sharebroker, everysec"
"""Kafka answers before its records are on the disk, and so does this."""
DURABLE: Final = "Sharebroker, always"

Results = Mapping[str, Sequence[Figures]]
"""Figures of every run, by system."""


def as_json(results: Results, failures: Sequence[str]) -> str:
    """Medians, ratios and every run."""
    middle = {system: medians(runs) for system, runs in results.items()}
    document = {
        "machine": machine(),
        "figures": [
            {
                "key": figure.key,
                "label": figure.label,
                "unit": figure.unit,
                "aim": figure.aim,
                "median": {system: found.get(figure.key) for system, found in middle.items()},
                "ratio": {system: ratio(figure, system, middle) for system in middle if system != KAFKA},
            }
            for figure in FIGURES
        ],
        "runs": {system: list(runs) for system, runs in results.items()},
        "failures": list(failures),
    }
    return json.dumps(document, indent=2)


def show(results: Results, failures: Sequence[str], console: Console) -> None:
    """A table: medians of the runs, and how many times Kafka's that is."""
    middle = {system: medians(runs) for system, runs in results.items()}
    runs = max((len(found) for found in results.values()), default=0)
    table = Table(title=f"The same clients on both, 100-byte records, medians of {runs} runs. {machine()}")
    table.add_column("", max_width=56)
    for system in results:
        table.add_column(system, justify="right")
        if system != KAFKA:
            table.add_column("ratio", justify="right")
    table.add_column("Aim", justify="right")
    table.add_column("")
    for figure in FIGURES:
        if not any(figure.key in found for found in middle.values()):
            continue
        cells: list[str] = []
        for system in results:
            cells.append(_number(figure, middle[system].get(figure.key)))
            if system != KAFKA:
                cells.append(_ratio(ratio(figure, system, middle)))
        itself = middle.get(LIKE_FOR_LIKE, {}).get(figure.key)
        like_for_like = itself if figure.absolute else ratio(figure, LIKE_FOR_LIKE, middle)
        table.add_row(figure.label, *cells, _aim(figure), _verdict(figure, like_for_like))
    console.print(table)
    for failure in failures:
        console.print(f"[red]failed[/] {failure}")


def ratio(figure: Figure, system: str, middle: Mapping[str, Figures]) -> float | None:
    """How many times Kafka's figure a system's is; None where one is missing."""
    ours, kafka = middle.get(system, {}).get(figure.key), middle.get(KAFKA, {}).get(figure.key)
    return ours / kafka if ours is not None and kafka else None


def _number(figure: Figure, value: float | None) -> str:
    if value is None:
        return "-"
    digits = {"records/s": 0, "ms": 2, "%": 1}[figure.unit]
    return f"{value:,.{digits}f} {figure.unit}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}×"


def _aim(figure: Figure) -> str:
    if figure.aim is None:
        return ""
    return f"{'≥' if figure.unit == 'records/s' else '≤'} {figure.aim:g}{' %' if figure.absolute else '×'}"


def _verdict(figure: Figure, value: float | None) -> str:
    met = None if value is None else figure.met(value)
    return {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[met]
