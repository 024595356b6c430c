"""The figures of both systems side by side, as a table for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.perf.figures import Figures, medians
from tests.perf.kafka.figures import FIGURES, NOT_YET_MEASURED, Figure
from tests.perf.kafka.systems import KAFKA, LIKE_FOR_LIKE
from tests.perf.report import machine

Results = Mapping[str, Sequence[Figures]]
"""Figures of every run, by system."""

UNSTEADY: Final = "~"

_DIGITS: Final = {"records/s": 0, "ms": 2, "%": 1, "us": 2, "MB": 0}


@dataclass(frozen=True, slots=True)
class Remarks:
    """Text below the table: versions and flags, programs that were not steady, failures."""

    about: Sequence[str] = ()
    notes: Sequence[str] = ()
    failures: Sequence[str] = ()


def as_json(results: Results, remarks: Remarks) -> str:
    """Medians, ratios and every run."""
    middle = {system: medians(runs) for system, runs in results.items()}
    document = {
        "machine": machine(),
        "about": list(remarks.about),
        "figures": [
            {
                "key": figure.key,
                "label": figure.label.strip(),
                "unit": figure.unit,
                "aim": figure.aim,
                "median": {system: found.get(figure.key) for system, found in middle.items()},
                "ratio": {system: ratio(figure, system, middle) for system in middle if system != KAFKA},
            }
            for figure in FIGURES
        ],
        "not_yet_measured": list(NOT_YET_MEASURED),
        "runs": {system: list(runs) for system, runs in results.items()},
        "notes": list(remarks.notes),
        "failures": list(remarks.failures),
    }
    return json.dumps(document, indent=2)


def show(results: Results, remarks: Remarks, console: Console) -> None:
    """A table: medians of the runs, and their ratios to Kafka's."""
    middle = {system: medians(runs) for system, runs in results.items()}
    runs = max((len(found) for found in results.values()), default=0)
    table = Table(title=f"The same clients on both, 100-byte records, medians of {runs} runs. {machine()}")
    table.add_column("", max_width=64)
    for system in results:
        table.add_column(system, justify="right")
        if system != KAFKA:
            table.add_column("ratio", justify="right")
    table.add_column("Aim", justify="right")
    table.add_column("")
    for figure in FIGURES:
        if any(figure.key in found for found in middle.values()):
            table.add_row(
                figure.label, *_cells(figure, results, middle), _aim(figure), _verdict(figure, middle)
            )
    for label in NOT_YET_MEASURED:
        table.add_row(label, *("not yet measured" if system != KAFKA else "" for system in results))
    console.print(table)
    for line in remarks.about:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if remarks.notes:
        console.print(f"{UNSTEADY} a rate that was not steady in some run when its warm-up ended")
    for failure in remarks.failures:
        console.print(f"[red]failed[/] {failure}")


def ratio(figure: Figure, system: str, middle: Mapping[str, Figures]) -> float | None:
    """A system's figure divided by Kafka's; None where one is missing."""
    ours, kafka = middle.get(system, {}).get(figure.key), middle.get(KAFKA, {}).get(figure.key)
    return ours / kafka if ours is not None and kafka else None


def _cells(figure: Figure, results: Results, middle: Mapping[str, Figures]) -> list[str]:
    cells: list[str] = []
    for system, found in middle.items():
        steady = all(run.get(f"{figure.program}.steady", 1.0) for run in results[system])
        mark = "" if steady or figure.key not in found else f"{UNSTEADY} "
        cells.append(mark + _number(figure, found.get(figure.key)))
        if system != KAFKA:
            cells.append(_ratio(ratio(figure, system, middle)))
    return cells


def _number(figure: Figure, value: float | None) -> str:
    if value is None:
        return "-"
    unit = "µs" if figure.unit == "us" else figure.unit
    digits = 0 if value >= 1000 else _DIGITS[figure.unit]
    return f"{value:,.{digits}f} {unit}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}×"


def _aim(figure: Figure) -> str:
    if figure.aim is None:
        return ""
    return f"{'≥' if figure.unit == 'records/s' else '≤'} {figure.aim:g}{' %' if figure.absolute else '×'}"


def _verdict(figure: Figure, middle: Mapping[str, Figures]) -> str:
    itself = middle.get(LIKE_FOR_LIKE, {}).get(figure.key)
    value = itself if figure.absolute else ratio(figure, LIKE_FOR_LIKE, middle)
    met = None if value is None else figure.met(value)
    return {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[met]
