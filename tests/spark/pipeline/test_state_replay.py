"""A state log as an Arrow table becomes one row: state, differences, history and the log itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.spark.environment import needs_spark, running
from tests.spark.pipeline.conftest import GROUP, LOG, TOPIC, log_row

pytestmark = [needs_spark, pytest.mark.timeout(300)]
CASES: dict[str, list[dict[str, Any]]] = {
    "whole": LOG,
    "reversed": LOG[::-1],
    "empty answer": [log_row("answer", 1, start=0)],
    "deleted": [log_row("checkpoint", 1, start=5), log_row("tombstone", 2, state_epoch=None)],
    "first start unset": [log_row("checkpoint", 1, start=-1), log_row("answer", 2, start=-1)],
    "no time": [log_row("checkpoint", 1, start=0), log_row("delta", 2, 0, 0, 2, 1, written_at=None)],
}


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("replaying")
    given = folder / "given.json"
    given.write_text(json.dumps(list(CASES.values())))
    with running("replaying", folder / "run", str(given)) as program:
        rows = program.wait_for_value("rows")
    assert all(len(each) == 1 for each in rows)
    return {case: each[0] for case, each in zip(CASES, rows, strict=True)}


def test_row_has_the_replayed_state(replayed: dict[str, dict[str, Any]]) -> None:
    row = replayed["whole"]
    assert (row["group"], row["topic"], row["partition"], row["records"]) == (GROUP, TOPIC, 0, 5)
    assert (row["state_epoch"], row["leader_epoch"], row["start_offset"]) == (2, 5, 0)


def test_row_keeps_the_log_for_tables_of_the_same_moment(replayed: dict[str, dict[str, Any]]) -> None:
    log = replayed["whole"]["log"]
    assert [(entry["kind"], entry["position"]) for entry in log] == [
        (row["kind"], row["position"]) for row in LOG
    ]


def test_order_of_the_rows_does_not_matter(replayed: dict[str, dict[str, Any]]) -> None:
    whole, other = replayed["whole"], replayed["reversed"]
    assert whole["differences"] == other["differences"] != []
    assert whole["history"] == other["history"] != []


def test_times_are_taken_from_the_log(replayed: dict[str, dict[str, Any]]) -> None:
    ended = [item["finished_at"] for item in replayed["whole"]["history"] if item["finished_at"]]
    assert ended == ["2026-01-01 08:00:10+00:00", "2026-01-01 08:00:20+00:00"]
    (item,) = replayed["no time"]["history"]
    assert (item["fate"], item["finished_at"]) == ("accepted", None)


def test_state_without_a_log_is_a_difference(replayed: dict[str, dict[str, Any]]) -> None:
    row = replayed["empty answer"]
    assert (row["records"], row["state_epoch"], row["start_offset"]) == (0, None, None)
    assert [item["text"] for item in row["differences"]] == [
        "The coordinator has a state, but the log has none."
    ]


def test_deleted_state_is_empty_without_a_difference(replayed: dict[str, dict[str, Any]]) -> None:
    row = replayed["deleted"]
    assert (row["records"], row["start_offset"], row["differences"], row["history"]) == (2, None, [], [])


def test_unset_start_offset_matches_the_coordinators(replayed: dict[str, dict[str, Any]]) -> None:
    assert replayed["first start unset"]["differences"] == []
    assert replayed["first start unset"]["start_offset"] == -1
