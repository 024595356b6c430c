"""Output for users: live values in a terminal, plain lines elsewhere, and tables at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sharebroker_server.flights.core.ledger import RunVerdict, ranges
from sharebroker_server.flights.core.statistics import Delays, RunProgress, RunSummary

_LINE_SECONDS: Final = 2.0
_WORST_ROUTES: Final = 10
_MAX_LISTED: Final = 20


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

    def message(self, text: str) -> None:
        """Prints a message."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, progress: RunProgress, now: float) -> None:
        """Shows the values at `now` (seconds); outside a terminal one line every other second."""
        if self._console.is_terminal:
            self._live.update(_panel(progress))
        elif now - self._last_line >= _LINE_SECONDS:
            self._last_line = now
            self.message(progress.line())

    def finish(self, progress: RunProgress) -> None:
        """Shows the final values permanently."""
        self._live.update(_panel(progress))
        self.message(progress.line())


def _panel(progress: RunProgress) -> Table:
    shown = Table(box=None, pad_edge=False)
    for label, _ in progress.cells():
        shown.add_column(label, justify="right", min_width=8)
    shown.add_row(*(value for _, value in progress.cells()))
    return shown


def print_summary(console: Console, summary: RunSummary, names: Mapping[str, str]) -> None:
    """Prints delays by carrier, and the routes with the longest delays."""
    if not summary.finished:
        return
    carriers = [(names.get(carrier, carrier), delays) for carrier, delays in summary.by_carrier()]
    console.print("\nDelay by carrier, minutes per flight", style="bold")
    console.print(_delays("Carrier", carriers))
    if routes := summary.worst_routes(_WORST_ROUTES):
        console.print("\nRoutes with the longest arrival delay (50 flights or more)", style="bold")
        console.print(_delays("Route", routes))


def print_verdict(console: Console, verdict: RunVerdict) -> None:
    """Prints the sums, and every record that violates them."""
    sums = f"published {verdict.published:,} = "
    if verdict.earlier:
        sums += f"finished by an earlier run {verdict.earlier:,} + "
    sums += f"accepted {verdict.accepted:,} + rejected {verdict.rejected:,}"
    console.print(f"\n{sums}", highlight=False, soft_wrap=True)
    errors = {
        "missing (never finished)": verdict.missing,
        "finished, but acknowledged by no worker": verdict.unexplained,
        "redelivered after they were finished": verdict.redelivered,
    }
    for heading, record_ids in errors.items():
        lines = ranges(record_ids)
        console.print(f"{heading}: {len(record_ids):,}", highlight=False, style="red" if record_ids else "")
        for line in lines[:_MAX_LISTED]:
            console.print(f"  {line}", highlight=False)
        if len(lines) > _MAX_LISTED:
            console.print(f"  and {len(lines) - _MAX_LISTED} more ranges", highlight=False)
    console.print(
        "Verdict: every record was finished exactly once." if verdict.good else "Verdict: FAILED.",
        style="bold green" if verdict.good else "bold red",
        highlight=False,
    )


def _delays(heading: str, rows: Iterable[tuple[str, Delays]]) -> Table:
    delay_table = Table(box=None, pad_edge=False)
    delay_table.add_column(heading)
    for number in ("Flights", "Left late", "Arrived late", "Not processed"):
        delay_table.add_column(number, justify="right")
    for name, delays in rows:
        minutes = (f"{mean:.1f}" for mean in (delays.mean_departure, delays.mean_arrival))
        delay_table.add_row(name, f"{delays.flights:,}", *minutes, f"{delays.rejected:,}")
    return delay_table
