"""Output of the pipeline for users."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_server.pipeline.display import print_tables, progress, verdict
from sharebroker_server.pipeline.spark_process import SparkRun

TOTALS = {"bronze": 1200, "silver": 1100, "rejected": 100, "share_partitions": 4, "log_records": 5000}
EMPTY: dict[str, Any] = dict.fromkeys(
    ("sections", "rejected", "deliveries", "health", "accept", "differences"), ()
)


@pytest.mark.parametrize(
    ("differences", "end"),
    [
        (0, "no difference from the coordinator's state."),
        (1234, "1,234 differences from the coordinator's state."),
    ],
)
def test_verdict_counts_differences(differences: int, end: str) -> None:
    sentence = verdict({"totals": [{**TOTALS, "differences": differences}]})
    assert sentence == f"4 share-partitions, 5,000 records of their logs replayed: {end}"


def test_only_tables_with_rows_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"rejected": [{"reason": "no aircraft", "records": 7}]}
    print_tables({**EMPTY, **rows, "totals": [TOTALS], "poison_total": [{"records": 3}]})
    printed = capsys.readouterr().out
    assert "no aircraft" in printed
    assert "Work queues" not in printed
    assert "1,200 records read, 1,100 valid rows, 100 rejected; 3 on the poison list." in printed


def test_short_tables_of_the_project_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    sections = [{"name": name, "title": f"By {name}"} for name in ("carrier", "minute", "day")]
    rows: dict[str, list[dict[str, Any]]] = {
        "carrier": [{"carrier": None, "late_share": 0.25}, {"carrier": "UA", "late_share": None}],
        "minute": [{"minute": number} for number in range(60)],
        "day": [],
    }
    print_tables(
        {**EMPTY, **rows, "sections": sections, "totals": [TOTALS], "poison_total": [{"records": 0}]}
    )
    printed = capsys.readouterr().out
    assert "By carrier" in printed
    assert "LATE SHARE" in printed
    assert "By minute" not in printed  # the report has it
    assert "By day" not in printed


def test_progress_is_a_line_per_change_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    run = SparkRun()
    with progress() as show:
        show(run)
        show(run)
        run.flows = {"bronze": "COMPLETED", "silver": "RUNNING"}
        run.stage = "computing"
        show(run)
    assert capsys.readouterr().err.splitlines() == ["starting Spark", "1 of 2 tables, computing"]
