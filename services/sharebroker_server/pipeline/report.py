"""The report: the tables of a run as a page, and the summary that the command prints.

Runs in Spark's environment.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from sharebroker_server.pipeline import charts
from sharebroker_server.pipeline.charts import Rows, worded
from sharebroker_server.pipeline.core.definition import Definition, Section
from sharebroker_server.pipeline.settings import Settings

PAGE: Final = "index.html"
SUMMARY: Final = "summary.json"
MAX_ROWS: Final = 5_000
"""The largest number of rows of a table in the report."""
_MOST_DRAWN: Final = 60
"""The largest number of rows that are drawn."""

TABLES: Final = {
    "totals": (
        "SELECT (SELECT count(*) FROM bronze_records) AS bronze, "
        "(SELECT count(*) FROM silver_records) AS silver, "
        "(SELECT count(*) FROM silver_rejected) AS rejected, "
        "(SELECT count(DISTINCT partition, offset) FROM bronze_records) AS offsets, "
        "(SELECT min(timestamp) FROM bronze_records) AS first_record, "
        "(SELECT max(timestamp) FROM bronze_records) AS last_record, "
        "(SELECT count(*) FROM state_folded) AS share_partitions, "
        "(SELECT coalesce(sum(records), 0) FROM state_folded) AS log_records, "
        "(SELECT count(*) FROM state_differences) AS differences"
    ),
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

_OUTCOMES: Final = {
    "accepted": "accepted", "to_try_again": "to be redelivered", "archived": "archived"
}  # fmt: skip
_SHARES: Final = ("_share", "_rate")
"""The ends of the names of columns that are shown as percentages."""


def write_report(spark: Any, settings: Settings, folder: Path) -> None:
    """Writes the page with its plots, and the same values as JSON; each file is replaced atomically."""
    definition = settings.definition
    queries = TABLES | {name: section.query for name, section in definition.report.items()}
    tables: dict[str, Rows] = {
        name: [row.asDict(recursive=True) for row in spark.sql(query).limit(MAX_ROWS).collect()]
        for name, query in queries.items()
    }
    tables["run"] = [{"topic": definition.topic, "group": definition.group, "started": settings.started}]
    tables["sections"] = [
        {"name": name, "title": section.title} for name, section in definition.report.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    _replace_file(folder / PAGE, page(tables, plots(tables, definition)))
    _replace_file(folder / SUMMARY, json.dumps(_plain(tables)))


def _plain(value: Any) -> Any:
    """Returns a value as JSON can have it; null for a number that is infinite or none."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, int | str) else str(value)


def _replace_file(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def page(tables: Mapping[str, Rows], pictures: Mapping[str, str]) -> str:
    """Returns the HTML; values from records are escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": shown, "decimals": decimals, "numbers": numbers, "worded": worded}
    template = environment.get_template("page.html.jinja")
    embedded = {name: Markup(picture) for name, picture in pictures.items()}
    facts = tables["run"][0] | tables["totals"][0]
    return str(template.render(tables=tables, pictures=embedded, most=MAX_ROWS, **facts))


def decimals(rows: Rows) -> dict[str, int]:
    """Returns the digits after the point of each column, at most two: the same in all rows."""
    digits: dict[str, int] = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, float | Decimal):
                needed = len(f"{value:.2f}".rstrip("0").partition(".")[2])
                digits[name] = max(digits.get(name, 0), needed)
    return digits


def numbers(rows: Rows) -> set[str]:
    """Returns the columns with numbers."""
    return {name for row in rows for name, value in row.items() if _is_number(value)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def shown(value: object, name: str = "", digits: int = 2) -> str:
    """Returns the text form of a value in a column."""
    if value is None:
        return "–"
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):  # as _is_number
        if name.endswith(_SHARES):
            return f"{value:.1%}"
        return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)


def plots(tables: Mapping[str, Rows], definition: Definition) -> dict[str, str]:
    """Returns pictures by table name, for tables with rows."""
    drawn = {name: _section(name, tables[name], section) for name, section in definition.report.items()}
    rows = tables["deliveries"]
    drawn["deliveries"] = charts.deliveries(rows, "Records by delivery count") if rows else ""
    rows = tables["health"][:_MOST_DRAWN]
    drawn["health"] = charts.outcomes(rows, _OUTCOMES, "Records by group and outcome") if rows else ""
    return {name: picture for name, picture in drawn.items() if picture}


def _section(name: str, rows: Rows, section: Section) -> str:
    """Returns the picture of a section, or nothing. Raises ValueError for a column that does not exist."""
    chart = section.chart
    if chart is None or not rows:
        return ""
    for column in (chart.x, *chart.y, *([chart.behind] if chart.behind else [])):
        if column not in rows[0]:
            raise ValueError(
                f"the query of report.{name} has no column {column}, which its chart names; "
                f"it has {', '.join(rows[0])}"
            )
    if chart.kind == "bars":
        return charts.bars(rows[:_MOST_DRAWN], chart.x, chart.y, chart.label, section.title)
    return charts.lines(rows, chart.x, chart.y, (chart.label, chart.behind), section.title)
