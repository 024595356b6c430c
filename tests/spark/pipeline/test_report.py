"""The report's page and summary of given tables."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
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
    "first_record": "2026-01-01 08:00:00",
    "last_record": "2026-01-02 09:30:00",
    "share_partitions": 2,
    "log_records": 40,
    "differences": 0,
}
DELAYS = {
    "flights": 60,
    "departure_minutes": 2.5,
    "arrival_minutes": 3.25,
    "arrival_minutes_p90": 9,
    "late_share": 0.2174,
}
EMPTY: dict[str, list[dict[str, Any]]] = {"totals": [TOTALS], "poison_total": [{"records": 0}]}
HEALTH = {"group": "work$ers", "topic": "flights", "accepted": 4, "to_try_again": 1, "archived": 2}
FULL: dict[str, list[dict[str, Any]]] = {
    **EMPTY,
    "carriers": [{"carrier": "<b>UA</b>", **DELAYS}, {"carrier": None, **DELAYS, "arrival_minutes": 12.0}],
    "routes": [{"route": "EWR-IAH", **DELAYS, "arrival_minutes_p90": float("nan")}],
    "hours": [{"hour": hour, **DELAYS} for hour in (5, 6)],
    "deliveries": [{"topic": "flights", "delivery_count": 1, "records": 10, "seconds_p50": None}],
    "health": [HEALTH],
    "rejected": [{"reason": f"reason {number}", "records": 1, "example": None} for number in range(6000)],
}


CHROMIUM = shutil.which("chromium")
DARK, LIGHT = 0, 1
"""Chromium's numbers of the colour schemes that a user prefers."""
LOOK = """
<script>
const table = document.querySelector("table"), columns = {first: 0, rides: 1};
const seen = {
  paper: getComputedStyle(document.body).backgroundColor,
  bar: getComputedStyle(document.querySelector("figure svg path[style*='--first']")).fill,
};
for (const [name, column] of Object.entries(columns)) {
  for (const order of ["up", "down"]) {
    table.querySelectorAll("th button")[column].click();
    seen[`${name} ${order}`] = [...table.tBodies[0].rows].map(row => row.cells[0].textContent);
  }
}
const rejected = [...document.querySelectorAll(".table")].find(box => box.textContent.includes("reason"));
const visible = () => [...rejected.querySelectorAll("tbody tr")].filter(row => row.offsetParent).length;
seen.rows = [visible()];
document.querySelector(".more").click();
seen.rows.push(visible());
document.title = JSON.stringify(seen);
</script>
"""


class Outline(HTMLParser):
    """The headings and tables of a page; fails for elements that are not closed in order."""

    VOID = ("meta", "br", "link")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] in (["h1"], ["h2"]):
            self.headings.append(data)


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


def test_page_names_topic_group_time_span_and_run(full: tuple[str, dict[str, Any]]) -> None:
    assert "<h1>&lt;i&gt;flights&lt;/i&gt;, read by pipeline</h1>" in full[0]
    assert "<dd>2026-01-01 08:00:00 to 2026-01-02 09:30:00 UTC</dd>" in full[0]
    assert "<dt>Run started</dt><dd>2026-01-01 09:00:00 UTC</dd>" in full[0]
    assert full[1]["run"][0]["started"] == "2026-01-01 09:00:00"


def test_page_has_the_sections_of_the_project_in_order(full: tuple[str, dict[str, Any]]) -> None:
    outline = Outline()
    outline.feed(full[0])
    assert outline.open == []
    assert outline.headings[-8:-5] == [
        "Delay by carrier",
        "Delay by hour of departure",
        "Delay by route, 50 flights or more",
    ]
    assert outline.headings[-5:] == [
        "Rejected records",
        "Deliveries",
        "Work queues",
        "Poison list",
        "State log",
    ]


def test_plots_are_vector_graphics_in_the_colours_of_the_page(full: tuple[str, dict[str, Any]]) -> None:
    pictures = re.findall(r"<svg .*?</svg>", full[0], re.DOTALL)
    assert len(pictures) == 5
    assert "<image" not in "".join(pictures)
    for picture in pictures:
        assert 'role="img" aria-label="' in picture
        assert {*re.findall(r"(?:fill|stroke): (?!none)([^;\"]+)", picture)} <= {
            f"var(--{name})" for name in ("ink", "grid", "first", "second", "third")
        }
    assert "prefers-color-scheme: dark" in full[0]


def test_identifiers_of_the_page_are_unique(full: tuple[str, dict[str, Any]]) -> None:
    names = re.findall(r'\bid="([^"]+)"', full[0])
    assert sorted(names) == sorted({*names})
    assert {*re.findall(r'(?:url\(|xlink:href=")#([^")]+)', full[0])} <= {*names}


def test_tables_without_rows_are_not_drawn(differing: tuple[str, dict[str, Any]]) -> None:
    assert "<svg" not in differing[0]
    assert "No group has state for this topic." in differing[0]


def test_values_from_records_are_escaped(full: tuple[str, dict[str, Any]]) -> None:
    assert "<td>&lt;b&gt;UA&lt;/b&gt;</td>" in full[0]
    assert "<b>UA</b>" not in full[0]
    assert "work$ers</text>" in full[0]  # and is no formula


def test_numbers_have_separators_and_missing_values_a_dash(full: tuple[str, dict[str, Any]]) -> None:
    text = re.sub(r"\s+", " ", full[0])
    assert "12,345 records read (12,345 offsets): 12,000 valid rows, 345 rejected (2.8%)." in text
    assert "<td>–</td>" in full[0]


def test_columns_have_the_same_decimals_and_shares_are_percentages(full: tuple[str, dict[str, Any]]) -> None:
    assert '<td class="number" data-value="0.2174">21.7%</td>' in full[0]
    assert '<td class="number" data-value="3.25">3.25</td>' in full[0]
    assert '<td class="number" data-value="12.0">12.00</td>' in full[0]
    assert '<td class="number" data-value="2.5">2.5</td>' in full[0]


def test_verdict_states_whether_log_and_coordinator_match(
    full: tuple[str, dict[str, Any]], differing: tuple[str, dict[str, Any]]
) -> None:
    assert re.search(
        r"2 share-partitions \(40 records\), replayed, matches the\s+coordinator's state", full[0]
    )
    assert 'class="verdict bad"' not in full[0]
    assert 'class="verdict bad"' in differing[0]
    assert "another start" in differing[0]


def test_only_very_long_tables_are_cut_and_say_so(full: tuple[str, dict[str, Any]]) -> None:
    assert "reason 4999<" in full[0]
    assert "reason 5000<" not in full[0]
    assert full[0].count("The first 5,000 rows; the table has all.") == 1
    assert len(full[1]["rejected"]) == 5000


def test_summary_has_the_values_of_every_table(full: tuple[str, dict[str, Any]]) -> None:
    summary = full[1]
    assert summary["totals"] == [TOTALS]
    assert summary["health"] == [HEALTH]
    assert summary["differences"] == []
    assert [section["name"] for section in summary["sections"]] == ["carriers", "hours", "routes"]


def test_number_that_is_none_is_null_in_the_summary(full: tuple[str, dict[str, Any]]) -> None:
    assert full[1]["routes"][0]["arrival_minutes_p90"] is None


def test_chart_of_a_missing_column_names_section_and_columns(tmp_path: Path) -> None:
    tables = EMPTY | {"hours": [{"hour": 5, "delay": 1.0}]}
    (tmp_path / "given.json").write_text(json.dumps(tables))
    with running("reporting", tmp_path / "run", str(tmp_path / "given.json"), str(tmp_path)) as program:
        assert program.ends() == 1
    error = program.errors.splitlines()[-1]
    assert error.startswith("ValueError: the query of report.hours has no column ")
    assert error.endswith(", which its chart names; it has hour, delay")


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
def test_tables_and_colours_in_a_browser(tmp_path: Path) -> None:
    values = {"x10": -2.5, "x9": 12.0, "x1": 3.25, "x2": None}
    carriers = [{"carrier": name, **DELAYS, "flights": value} for name, value in values.items()]
    rejected = [{"reason": f"reason {number}", "records": 1, "example": None} for number in range(30)]
    page, _ = report(tmp_path / "all", EMPTY | {"carriers": carriers, "rejected": rejected})
    dark, light = (in_browser(tmp_path, page, scheme) for scheme in (DARK, LIGHT))
    for seen in (dark, light):
        assert (seen["first up"], seen["first down"]) == (
            ["x1", "x2", "x9", "x10"],
            ["x10", "x9", "x2", "x1"],
        )
        assert (seen["rides up"], seen["rides down"]) == (
            ["x2", "x10", "x1", "x9"],
            ["x9", "x1", "x10", "x2"],
        )
        assert seen["rows"] == [20, 30]
    assert (light["paper"], dark["paper"]) == ("rgb(255, 255, 255)", "rgb(22, 24, 27)")
    assert (light["bar"], dark["bar"]) == ("rgb(59, 110, 165)", "rgb(110, 163, 220)")


def in_browser(folder: Path, page: str, scheme: int) -> dict[str, Any]:
    """What a script sees in a page."""
    (folder / "page.html").write_text(page.replace("</body>", f"{LOOK}</body>"))
    options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'browser'}")
    line = [str(CHROMIUM), *options, f"--blink-settings=preferredColorScheme={scheme}", "--dump-dom"]
    shown = subprocess.run(
        [*line, f"file://{folder / 'page.html'}"], capture_output=True, check=True, timeout=120
    )
    (title,) = re.findall(r"<title>(.*)</title>", shown.stdout.decode())
    found: dict[str, Any] = json.loads(html.unescape(title))
    return found
