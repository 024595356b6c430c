"""What people see: live numbers in a terminal, plain lines elsewhere, and the tables at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sharebroker_server.flights.core.progress import Progress
from sharebroker_server.flights.core.summary import Delays, Summary
from sharebroker_server.flights.core.verdict import Verdict, ranges

_LINE_SECONDS: Final = 2.0
_WORST_ROUTES: Final = 10
_MOST_SHOWN: Final = 20


class Display:
    """Shows the progress of a run; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._last_line = float("-inf")

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        """Something happened."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, progress: Progress, now: float) -> None:
        """The numbers at `now` (seconds); outside a terminal a line every other second."""
        if self._console.is_terminal:
            self._live.update(_panel(progress))
        elif now - self._last_line >= _LINE_SECONDS:
            self._last_line = now
            self.note(progress.line())

    def finish(self, progress: Progress) -> None:
        """The last numbers, to stay."""
        self._live.update(_panel(progress))
        self.note(progress.line())


def _panel(progress: Progress) -> Table:
    shown = Table(box=None, pad_edge=False)
    for label, _ in progress.cells():
        shown.add_column(label, justify="right", min_width=8)
    shown.add_row(*(value for _, value in progress.cells()))
    return shown


def print_summary(console: Console, summary: Summary, names: Mapping[str, str]) -> None:
    """Delay by carrier, and the routes that arrive latest."""
    if not summary.finished:
        return
    carriers = _delays("Carrier")
    for carrier, found in summary.by_carrier():
        carriers.add_row(names.get(carrier, carrier), *_cells(found))
    console.print("\nDelay by carrier, minutes a flight", style="bold")
    console.print(carriers)
    routes = _delays("Route")
    for route, found in summary.worst_routes(_WORST_ROUTES):
        routes.add_row(route, *_cells(found))
    if routes.row_count:
        console.print("\nRoutes that arrive latest (50 flights or more)", style="bold")
        console.print(routes)


def print_verdict(console: Console, verdict: Verdict) -> None:
    """The sums, and every record that breaks them."""
    sums = f"published {verdict.published:,} = "
    if verdict.earlier:
        sums += f"finished by an earlier run {verdict.earlier:,} + "
    sums += f"accepted {verdict.accepted:,} + rejected {verdict.rejected:,}"
    console.print(f"\n{sums}", highlight=False, soft_wrap=True)
    offences = {
        "missing (never finished)": verdict.missing,
        "finished, though no worker answered for them": verdict.unexplained,
        "delivered again after they were finished": verdict.redelivered,
    }
    for what, places in offences.items():
        lines = ranges(places)
        console.print(f"{what}: {len(places):,}", highlight=False, style="red" if places else "")
        for line in lines[:_MOST_SHOWN]:
            console.print(f"  {line}", highlight=False)
        if len(lines) > _MOST_SHOWN:
            console.print(f"  and {len(lines) - _MOST_SHOWN} more ranges", highlight=False)
    console.print(
        "Verdict: every record was finished exactly once." if verdict.good else "Verdict: NOT in order.",
        style="bold green" if verdict.good else "bold red",
        highlight=False,
    )


def _delays(what: str) -> Table:
    made = Table(box=None, pad_edge=False)
    made.add_column(what)
    for heading in ("Flights", "Left late", "Arrived late", "Not processed"):
        made.add_column(heading, justify="right")
    return made


def _cells(found: Delays) -> list[str]:
    return [
        f"{found.flights:,}",
        f"{found.mean_departure:.1f}",
        f"{found.mean_arrival:.1f}",
        f"{found.rejected:,}",
    ]
