"""The results of the cases: a table or JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from tests.compat.worker import Case

LONGEST_ERROR = 300


def as_json(system: str, tests: str, cases: Sequence[Case]) -> str:
    """Returns all cases with their errors."""
    document = {
        "system": system,
        "class": tests,
        "score": score(cases),
        "cases": [asdict(case) for case in sorted(cases, key=lambda case: case.name)],
    }
    return json.dumps(document, indent=2)


def score(cases: Sequence[Case]) -> dict[str, int]:
    """Returns how many cases had each result."""
    counts = Counter(case.outcome for case in cases)
    return {outcome: counts[outcome] for outcome in ("passed", "failed", "excluded")}


def show_case(case: Case, console: Console) -> None:
    """Prints a line as soon as a result is available."""
    console.print(
        _styled(case.outcome), f"{case.seconds:6.1f} s ", case.name, highlight=False, soft_wrap=True
    )


def show(system: str, tests: str, cases: Sequence[Case], console: Console) -> None:
    """Prints the score and the cases that did not pass."""
    table = Table(title=f"{tests} on {system}", show_lines=True)
    for title in ("Case", "", "Why"):
        table.add_column(title, overflow="fold")
    for case in sorted(cases, key=lambda case: (case.outcome, case.name)):
        if case.outcome != "passed":
            table.add_row(case.name, _styled(case.outcome), case.error[:LONGEST_ERROR])
    if table.row_count:
        console.print(table)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in score(cases).items() if count)
    again = sum(case.outcome == "passed" and case.tries > 1 for case in cases)
    console.print(f"{system}: {counts} of {len(cases)} cases; {again} at a second try", highlight=False)


def _styled(outcome: str) -> str:
    colour = {"passed": "green", "failed": "red"}.get(outcome, "yellow")
    return f"[{colour}]{outcome:8}[/]"
