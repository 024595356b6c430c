"""The report: draws the tables of a run, and writes the page and the summary that the command prints.

Runs in Spark's environment.
"""

from __future__ import annotations

import io
import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

Rows = list[dict[str, Any]]

PAGE: Final = "index.html"
SUMMARY: Final = "summary.json"
_MAX_ROWS: Final = 200
"""The largest number of rows of a table in the report."""

TABLES: Final = {
    "totals": (
        "SELECT (SELECT count(*) FROM bronze_flights) AS bronze, "
        "(SELECT count(*) FROM silver_flights) AS silver, "
        "(SELECT count(*) FROM silver_rejected) AS rejected, "
        "(SELECT count(DISTINCT partition, offset) FROM bronze_flights) AS offsets, "
        "(SELECT count(*) FROM state_folded) AS share_partitions, "
        "(SELECT coalesce(sum(records), 0) FROM state_folded) AS log_records, "
        "(SELECT count(*) FROM state_differences) AS differences"
    ),
    "carriers": "SELECT * FROM gold_delay_by_carrier ORDER BY arrival_minutes DESC, carrier",
    "routes": (
        "SELECT concat(origin, '-', dest) AS route, * EXCEPT (origin, dest) FROM gold_delay_by_route "
        "WHERE flights >= 50 ORDER BY arrival_minutes DESC, route LIMIT 20"
    ),
    "hours": "SELECT * FROM gold_delay_by_hour ORDER BY hour",
    "rejected": "SELECT * FROM gold_rejected ORDER BY records DESC, reason",
    "deliveries": "SELECT * FROM gold_deliveries ORDER BY topic, delivery_count",
    "health": "SELECT * FROM gold_queue_health ORDER BY `group`, topic",
    "accept": "SELECT * FROM gold_publish_to_accept ORDER BY `group`, topic",
    "poison": "SELECT * FROM gold_poison ORDER BY `group`, topic, partition, first_offset",
    "poison_total": "SELECT coalesce(sum(last_offset - first_offset + 1), 0) AS records FROM gold_poison",
    "kinds": "SELECT `group`, kind, count(DISTINCT topic, partition, position) AS records FROM state_log "
    "WHERE kind <> 'answer' GROUP BY ALL ORDER BY `group`, kind",
    "differences": "SELECT * FROM state_differences ORDER BY `group`, topic, partition, first_offset",
}

_BAR: Final = "#3b6ea5"
_SECOND: Final = "#e08e45"
_GRID: Final = "#dddddd"
_WIDTH: Final = 7.5
_DPI: Final = 110


def write_report(spark: Any, folder: Path) -> None:
    """Writes the page with its plots, and the same values as JSON; each file is replaced atomically."""
    tables = {
        name: [row.asDict() for row in spark.sql(query).limit(_MAX_ROWS).collect()]
        for name, query in TABLES.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    _replace_file(folder / PAGE, page(tables, plots(tables)))
    _replace_file(folder / SUMMARY, json.dumps(tables, default=str))


def _replace_file(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def page(tables: Mapping[str, Rows], pictures: Mapping[str, bytes]) -> str:
    """Returns the HTML; values from records are escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = shown
    embedded = {name: b64encode(picture).decode() for name, picture in pictures.items()}
    template = environment.get_template("page.html.jinja")
    return str(template.render(tables=tables, pictures=embedded, **tables["totals"][0]))


def shown(value: object) -> str:
    """Returns the text form of a value."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)


def plots(tables: Mapping[str, Rows]) -> dict[str, bytes]:
    """Returns pictures by table name, for tables with rows."""
    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    pictures = {}
    for name, (height, per_row, draw) in _DRAWN.items():
        if rows := tables[name]:
            size = (_WIDTH, height + per_row * len(rows))
            figure = Figure(figsize=size, layout="constrained")
            axes = figure.subplots()
            draw(axes, rows)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(
                    frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2
                )
            picture = io.BytesIO()
            figure.savefig(picture, format="png", dpi=_DPI)
            pictures[name] = picture.getvalue()
    return pictures


def _ranked(axes: Any, rows: Rows, key: str, title: str) -> None:
    """Draws horizontal bars, the longest delay at the top, with a mark at the 90th percentile."""
    names = [row[key] for row in reversed(rows)]
    axes.barh(names, [row["arrival_minutes"] for row in reversed(rows)], color=_BAR, label="mean")
    axes.plot([row["arrival_minutes_p90"] for row in reversed(rows)], names, "|", color=_SECOND, ms=9, mew=2,
              label="90 %")  # fmt: skip
    axes.axvline(0, color="black", lw=0.6)
    _describe(axes, title, "minutes", "x")


def _hours(axes: Any, rows: Rows) -> None:
    """Draws delays by hour as lines, and the number of flights as bars behind them."""
    hours = [row["hour"] for row in rows]
    behind = axes.twinx()
    behind.bar(hours, [row["flights"] for row in rows], color=_GRID, zorder=0)
    behind.set_ylabel("flights")
    behind.spines["top"].set_visible(False)
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    for label, colour in (("departure", _BAR), ("arrival", _SECOND)):
        axes.plot(hours, [row[f"{label}_minutes"] for row in rows], "-o", ms=3, color=colour, label=label)
    axes.set_xticks(range(0, 24, 2))
    _describe(axes, "Delay in minutes by hour of departure", "hour of departure")


def _deliveries(axes: Any, rows: Rows) -> None:
    """Draws the number of records per delivery count."""
    shown = axes.bar(
        [str(row["delivery_count"]) for row in rows], [row["records"] for row in rows], color=_BAR, width=0.5
    )
    axes.bar_label(shown, fmt="{:,.0f}")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("records")
    axes.margins(y=0.2)
    _describe(axes, "Delivery count of records when the pipeline read them", "delivery count", "y")


def _health(axes: Any, rows: Rows) -> None:
    """Draws the outcomes of each group's records side by side."""
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
    _describe(axes, "Records from the start offset on, by outcome", "records", "x")


def _describe(axes: Any, title: str, label: str, grid: str | None = None) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(label)
    if grid is not None:
        axes.grid(axis=grid, color=_GRID, lw=0.6)
        axes.set_axisbelow(True)


_CARRIERS: Final = "Arrival delay in minutes, mean and 90th percentile"
_ROUTES: Final = "Routes of 50 flights or more: arrival delay in minutes"
_DRAWN: Final[Mapping[str, tuple[float, float, Callable[[Any, Rows], None]]]] = {
    "carriers": (0.9, 0.24, partial(_ranked, key="carrier", title=_CARRIERS)),
    "routes": (0.9, 0.24, partial(_ranked, key="route", title=_ROUTES)),
    "hours": (3.2, 0, _hours),
    "deliveries": (2.6, 0, _deliveries),
    "health": (1.1, 0.5, _health),
}
"""Height of a plot in inches, further height per row, and what draws it."""
