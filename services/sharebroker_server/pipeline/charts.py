"""Draws rows as vector graphics whose colours are variables of the page's style."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

Rows = list[dict[str, Any]]

_COLOURS: Final = {
    "ink": "#010203",
    "grid": "#040506",
    "first": "#070809",
    "second": "#0a0b0c",
    "third": "#0d0e0f",
}
"""Placeholders by the name of the style's variable."""
_SERIES: Final = ("first", "second", "third")
_WIDTH: Final = 7.5
_ROW: Final = 0.24
_CHARACTERS: Final = 85
"""The number of characters that fit below the axis of lines."""
_STYLE: Final = {
    "font.size": 9,
    "font.family": "sans-serif",
    "svg.fonttype": "none",
    "svg.hashsalt": "sharebroker",
    "axes.spines.top": False,
    "axes.spines.right": False,
    **{f"{name}.color": _COLOURS["ink"] for name in ("text", "xtick", "ytick")},
    "axes.labelcolor": _COLOURS["ink"],
    "axes.edgecolor": _COLOURS["ink"],
    "grid.color": _COLOURS["grid"],
}

_REFERENCE: Final = re.compile(r'(?:url\(|xlink:href=")#([^")]+)')
_ID: Final = re.compile(r' id="([^"]+)"')
_OF_ID: Final = re.compile(r'( id="|url\(#|xlink:href="#)')

Draw = Callable[[Any, Rows], None]


def svg(rows: Rows, draw: Draw, height: float, title: str) -> str:
    """Returns a picture of the rows as an SVG element, with a height in inches."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.subplots()
        draw(axes, rows)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)
        content = io.StringIO()
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(content.getvalue(), title)


def _inline(document: str, title: str) -> str:
    """Returns the element without the document around it; its size is that of the page."""
    element = document[document.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    used = {*_REFERENCE.findall(element)}
    element = _ID.sub(lambda found: found[0] if found[1] in used else "", element)
    element = _OF_ID.sub(rf"\1c{crc32(document.encode()):08x}", element)  # unique on the page
    element = re.sub(r'^<svg [^>]*?(viewBox="[^"]*")[^>]*>', _opening(title), element, count=1)
    for name, colour in _COLOURS.items():
        element = element.replace(colour, f"var(--{name})")
    return element


def _opening(title: str) -> str:
    escaped = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;").replace("\\", "")
    links = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return rf'<svg {links} role="img" aria-label="{escaped}" \1>'


def bars(rows: Rows, x: str, y: Sequence[str], label: str, title: str) -> str:
    """Draws a horizontal bar per row, in their order, and a mark for each further value."""

    def draw(axes: Any, rows: Rows) -> None:
        names = [shortened(row[x]) for row in rows]
        places = range(len(rows))
        axes.barh(places, [number(row[y[0]]) for row in rows], color=_COLOURS["first"], label=worded(y[0]))
        for name, colour in zip(y[1:], _SERIES[1:], strict=False):
            marks = [number(row[name]) for row in rows]
            axes.plot(marks, places, "|", color=_COLOURS[colour], ms=9, mew=2, label=worded(name))
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.axvline(0, color=_COLOURS["ink"], lw=0.6)
        _describe(axes, label, "x")

    return svg(rows, draw, 0.9 + _ROW * len(rows), title)


def lines(rows: Rows, x: str, y: Sequence[str], labels: tuple[str, str], title: str) -> str:
    """Draws a line per column over `x`.

    `labels` are the name of the values, and the column that is drawn as grey bars behind them, or nothing.
    """
    label, behind = labels

    def draw(axes: Any, rows: Rows) -> None:
        found = [row[x] for row in rows]
        numeric = all(isinstance(value, int | float) for value in found)
        distinct = {str(value): value for value in found}
        places = {text: place for place, text in enumerate(distinct)}
        across = found if numeric else [places[str(value)] for value in found]
        if behind:
            other = axes.twinx()
            other.bar(across, [number(row[behind]) for row in rows], color=_COLOURS["grid"], zorder=0)
            other.set_ylabel(worded(behind))
            other.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            axes.set_zorder(other.get_zorder() + 1)
            axes.patch.set_visible(False)
        for name, colour in zip(y, _SERIES, strict=False):
            values = [number(row[name]) for row in rows]
            axes.plot(across, values, "-o", ms=3, color=_COLOURS[colour], label=worded(name))
        axes.set_ylabel(label)
        if numeric:
            axes.xaxis.get_major_locator().set_params(**_whole(across))
        else:
            names = [shortened(value) for value in distinct.values()]
            step = -(-len(names) * (max(map(len, names)) + 2) // _CHARACTERS)
            axes.set_xticks(range(0, len(names), step), names[::step])
        _describe(axes, worded(x), "y")

    return svg(rows, draw, 3.2, title)


def deliveries(rows: Rows, title: str) -> str:
    """Draws the number of records per delivery count."""

    def draw(axes: Any, rows: Rows) -> None:
        counts = [str(row["delivery_count"]) for row in rows]
        shown = axes.bar(counts, [row["records"] for row in rows], color=_COLOURS["first"], width=0.5)
        axes.bar_label(shown, fmt="{:,.0f}")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel("records")
        axes.margins(y=0.2)
        _describe(axes, "delivery count", "y")

    return svg(rows, draw, 2.6, title)


def outcomes(rows: Rows, parts: Mapping[str, str], title: str) -> str:
    """Draws the records of each group side by side, by outcome; `parts` names the columns."""

    def draw(axes: Any, rows: Rows) -> None:
        left = [0.0] * len(rows)
        names = [shortened(row["group"]) for row in rows]
        for (key, label), colour in zip(parts.items(), _SERIES, strict=True):
            sizes = [number(row[key]) for row in rows]
            axes.barh(names, sizes, left=left, color=_COLOURS[colour], label=label, height=0.6)
            left = [before + size for before, size in zip(left, sizes, strict=True)]
        axes.margins(x=0.02)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        _describe(axes, "records", "x")

    return svg(rows, draw, 1.1 + 0.5 * len(rows), title)


def number(value: Any) -> float:
    """Returns a value as a number; NaN, which is not drawn, if it has none."""
    try:
        return float("nan") if value is None else float(value)
    except (TypeError, ValueError):
        return float("nan")


def shortened(value: Any) -> str:
    """Returns a name for an axis. Dollar signs would begin a formula."""
    text = "–" if value is None else str(value)
    return (text if len(text) <= 30 else f"{text[:29]}…").replace("$", r"\$")


def worded(name: str) -> str:
    """Returns the name of a column in words."""
    return re.sub(r" p(\d\d)$", r" \1 %", name.replace("_", " ")).replace("$", r"\$")


def _whole(across: Sequence[Any]) -> dict[str, bool]:
    return {"integer": True} if all(isinstance(value, int) for value in across) else {}


def _describe(axes: Any, label: str, grid: str) -> None:
    axes.set_xlabel(label)
    axes.grid(axis=grid, lw=0.6)
    axes.set_axisbelow(True)
