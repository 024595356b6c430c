"""The report's page and summary of given tables."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.spark.environment import needs_spark, running

pytestmark = [needs_spark, pytest.mark.timeout(300)]

TOTALS = {
    "bronze": 12_345,
    "silver": 12_000,
    "rejected": 345,
    "offsets": 12_345,
    "share_partitions": 2,
    "log_records": 40,
    "differences": 0,
}
DELAYS = {
    "flights": 60,
    "departure_minutes": 2.5,
    "arrival_minutes": 3.5,
    "arrival_minutes_p90": 9,
    "late_share": 0.1,
}
EMPTY: dict[str, list[dict[str, Any]]] = {"totals": [TOTALS], "poison_total": [{"records": 0}]}
HEALTH = {"group": "workers", "topic": "flights", "accepted": 4, "to_try_again": 1, "archived": 2}
FULL: dict[str, list[dict[str, Any]]] = {
    **EMPTY,
    "carriers": [{"carrier": "<b>UA</b>", **DELAYS}, {"carrier": "AA", **DELAYS}],
    "routes": [{"route": "EWR-IAH", **DELAYS}],
    "hours": [{"hour": hour, **DELAYS} for hour in (5, 6)],
    "deliveries": [{"topic": "flights", "delivery_count": 1, "records": 10, "seconds_p50": None}],
    "health": [HEALTH],
    "rejected": [{"reason": f"reason {number}", "records": 1, "example": None} for number in range(300)],
}


def report(folder: Path, tables: dict[str, list[dict[str, Any]]]) -> tuple[str, dict[str, Any]]:
    """The page and the summary."""
    folder.mkdir(exist_ok=True)
    given = folder / "given.json"
    given.write_text(json.dumps(tables))
    with running("reporting", folder / "run", str(given), str(folder / "report")) as program:
        assert program.wait_for_value("files") == ["index.html", "summary.json"]  # and no temporary file
    page = (folder / "report" / "index.html").read_text()
    return page, json.loads((folder / "report" / "summary.json").read_text())


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    return report(tmp_path_factory.mktemp("full") / "all", FULL)


@pytest.fixture(scope="module")
def differing(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    difference = {"group": "workers", "topic": "flights", "partition": 1, "text": "another start"}
    totals = [TOTALS | {"differences": 1}]
    return report(
        tmp_path_factory.mktemp("bad") / "all", EMPTY | {"totals": totals, "differences": [difference]}
    )


def test_each_table_with_a_plot_is_drawn(full: tuple[str, dict[str, Any]]) -> None:
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', full[0])
    assert len(pictures) == 5
    assert all(base64.b64decode(picture).startswith(b"\x89PNG") for picture in pictures)


def test_tables_without_rows_are_not_drawn(differing: tuple[str, dict[str, Any]]) -> None:
    assert "data:image/png" not in differing[0]
    assert "No group has state for this topic." in differing[0]


def test_values_from_records_are_escaped(full: tuple[str, dict[str, Any]]) -> None:
    assert "&lt;b&gt;UA&lt;/b&gt;" in full[0]
    assert "<b>UA</b>" not in full[0]


def test_numbers_have_separators_and_missing_values_a_dash(full: tuple[str, dict[str, Any]]) -> None:
    assert "12,345 records read (12,345 offsets), 12,000 flights, 345 rejected." in full[0]
    assert "<td>–</td>" in full[0]


def test_verdict_states_whether_log_and_coordinator_match(
    full: tuple[str, dict[str, Any]], differing: tuple[str, dict[str, Any]]
) -> None:
    assert re.search(
        r"2 share-partitions \(40 records\), replayed, matches the\s+coordinator's state", full[0]
    )
    assert 'class="verdict bad"' not in full[0]
    assert 'class="verdict bad"' in differing[0]
    assert "another start" in differing[0]


def test_tables_are_limited_to_the_first_rows(full: tuple[str, dict[str, Any]]) -> None:
    assert "reason 199" in full[0]
    assert "reason 200" not in full[0]
    assert len(full[1]["rejected"]) == 200


def test_summary_has_the_values_of_every_table(full: tuple[str, dict[str, Any]]) -> None:
    summary = full[1]
    assert summary["totals"] == [TOTALS]
    assert summary["health"] == [HEALTH]
    assert summary["differences"] == []
