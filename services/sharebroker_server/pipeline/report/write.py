"""Reads the tables of a run, and writes the page and the summary that the command prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from sharebroker_server.pipeline.report.page import page
from sharebroker_server.pipeline.report.plots import plots

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

Rows = list[dict[str, Any]]


def write_report(spark: Any, folder: Path) -> None:
    """Writes the page with its plots, and the same values as JSON; each file is replaced atomically."""
    tables = {name: _rows(spark, query) for name, query in TABLES.items()}
    folder.mkdir(parents=True, exist_ok=True)
    _replace_file(folder / PAGE, page(tables, plots(tables)))
    _replace_file(folder / SUMMARY, json.dumps(tables, default=str))


def _rows(spark: Any, query: str) -> Rows:
    return [row.asDict() for row in spark.sql(query).limit(_MAX_ROWS).collect()]


def _replace_file(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
