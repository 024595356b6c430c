"""Draws the plots of the report as PNG."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

Rows = list[dict[str, Any]]

_BAR: Final = "#3b6ea5"
_SECOND: Final = "#e08e45"
_GRID: Final = "#dddddd"
_WIDTH: Final = 7.5
_DPI: Final = 110


def plots(tables: Mapping[str, Rows]) -> dict[str, bytes]:
    """Returns pictures by table name, for tables with rows."""
    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    return {name: _png(draw(tables[name])) for name, draw in _DRAWN.items() if tables[name]}


def _carriers(rows: Rows) -> Figure:
    return _ranked(rows, "carrier", "Arrival delay in minutes, mean and 90th percentile")


def _routes(rows: Rows) -> Figure:
    return _ranked(rows, "route", "Routes of 50 flights or more: arrival delay in minutes")


def _ranked(rows: Rows, key: str, title: str) -> Figure:
    """Draws horizontal bars, the longest delay at the top, with a mark at the 90th percentile."""
    figure = Figure(figsize=(_WIDTH, 0.9 + 0.24 * len(rows)), layout="constrained")
    axes = figure.subplots()
    names = [row[key] for row in reversed(rows)]
    axes.barh(names, [row["arrival_minutes"] for row in reversed(rows)], color=_BAR, label="mean")
    axes.plot([row["arrival_minutes_p90"] for row in reversed(rows)], names, "|", color=_SECOND, ms=9, mew=2,
              label="90 %")  # fmt: skip
    axes.axvline(0, color="black", lw=0.6)
    return _finished(figure, axes, title, "minutes", "x")


def _hours(rows: Rows) -> Figure:
    """Draws delays by hour as lines, and the number of flights as bars behind them."""
    figure = Figure(figsize=(_WIDTH, 3.2), layout="constrained")
    axes = figure.subplots()
    hours = [row["hour"] for row in rows]
    behind = axes.twinx()
    behind.bar(hours, [row["flights"] for row in rows], color=_GRID, zorder=0)
    behind.set_ylabel("flights")
    behind.spines["top"].set_visible(False)
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.plot(hours, [row["departure_minutes"] for row in rows], "-o", ms=3, color=_BAR, label="departure")
    axes.plot(hours, [row["arrival_minutes"] for row in rows], "-o", ms=3, color=_SECOND, label="arrival")
    axes.set_xticks(range(0, 24, 2))
    axes.set_xlabel("hour of departure")
    return _finished(figure, axes, "Delay in minutes by hour of departure", None, None)


def _deliveries(rows: Rows) -> Figure:
    """Draws the number of records per delivery count."""
    figure = Figure(figsize=(_WIDTH, 2.6), layout="constrained")
    axes = figure.subplots()
    shown = axes.bar(
        [str(row["delivery_count"]) for row in rows], [row["records"] for row in rows], color=_BAR, width=0.5
    )
    axes.bar_label(shown, fmt="{:,.0f}")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("records")
    axes.set_xlabel("delivery count")
    axes.margins(y=0.2)
    return _finished(figure, axes, "Delivery count of records when the pipeline read them", None, "y")


def _health(rows: Rows) -> Figure:
    """Draws the outcomes of each group's records side by side."""
    figure = Figure(figsize=(_WIDTH, 1.1 + 0.5 * len(rows)), layout="constrained")
    axes = figure.subplots()
    left = [0] * len(rows)
    names = [row["group"] for row in rows]
    for key, label, colour in (
        ("accepted", "accepted", _BAR),
        ("to_try_again", "to be redelivered", _SECOND),
        ("archived", "archived", "#b5403a"),
    ):
        sizes = [int(row[key]) for row in rows]
        axes.barh(names, sizes, left=left, color=colour, label=label, height=0.6)
        left = [before + size for before, size in zip(left, sizes, strict=True)]
    axes.margins(x=0.02)
    return _finished(figure, axes, "Records from the start offset on, by outcome", "records", "x")


def _finished(figure: Figure, axes: Any, title: str, label: str | None, grid: str | None) -> Figure:
    axes.set_title(title, loc="left", fontsize=10)
    if label is not None:
        axes.set_xlabel(label)
    if grid is not None:
        axes.grid(axis=grid, color=_GRID, lw=0.6)
        axes.set_axisbelow(True)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)
    return figure


def _png(figure: Figure) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=_DPI)
    return picture.getvalue()


_DRAWN: Final[Mapping[str, Callable[[Rows], Figure]]] = {
    "carriers": _carriers,
    "routes": _routes,
    "hours": _hours,
    "deliveries": _deliveries,
    "health": _health,
}
