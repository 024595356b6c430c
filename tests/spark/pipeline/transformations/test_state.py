"""The state log as tables: log, history, differences, and the health of a queue."""

from __future__ import annotations

import pytest

from tests.spark.environment import START_SECONDS, needs_spark
from tests.spark.pipeline.conftest import GROUP, LOG, TOPIC, Definitions

pytestmark = [
    needs_spark,
    pytest.mark.slow,
    pytest.mark.timeout(START_SECONDS),
    pytest.mark.xdist_group("spark definitions"),
]


def test_log_has_a_row_per_run_of_a_record(definitions: Definitions) -> None:
    rows = definitions.tables["state_log"]
    assert len(rows) == len(LOG)
    assert {(row["group"], row["topic"], row["partition"]) for row in rows} == {(GROUP, TOPIC, 0)}
    assert {row["kind"] for row in rows} == {"checkpoint", "delta", "answer"}


def test_differences_name_the_offsets(definitions: Definitions) -> None:
    (difference,) = definitions.tables["state_differences"]
    assert (difference["first_offset"], difference["last_offset"]) == (2, 3)
    assert difference["text"] == (
        "In the log: acknowledged, delivered 2 times; in the coordinator: acknowledged, delivered once."
    )


def test_history_has_the_outcome_of_each_offset(definitions: Definitions) -> None:
    history = [
        (row["first_offset"], row["last_offset"], row["fate"], row["delivery_count"], row["finished_at"])
        for row in sorted(definitions.tables["state_history"], key=lambda row: row["first_offset"])
    ]
    assert history == [
        (0, 1, "accepted", 1, None),  # before the checkpoint
        (2, 3, "accepted", 2, "2026-01-01 08:00:10"),
        (4, 4, "archived", 3, "2026-01-01 08:00:20"),
        (5, 6, "available", 3, None),
        (7, 7, "available", 1, None),
        (8, 8, "waiting", 3, None),
    ]


def test_poison_has_failed_or_is_at_the_groups_delivery_limit(definitions: Definitions) -> None:
    poison = {row["first_offset"]: row for row in definitions.tables["gold_poison"]}
    assert {offset: (row["last_offset"], row["why"], row["reason"]) for offset, row in poison.items()} == {
        3: (4, "rejected", "no such route"),
        5: (6, "at the delivery limit", None),
        9: (9, "expired", None),
    }
    assert poison[3]["value"].startswith('{"date":"2013-01-03"')  # as the pipeline read it


def test_seconds_run_from_publishing_to_acceptance(definitions: Definitions) -> None:
    (row,) = definitions.tables["gold_publish_to_accept"]
    assert (row["group"], row["records"]) == (GROUP, 2)  # only deltas have the time
    assert (row["seconds_p50"], row["seconds_max"]) == (10.0, 10.0)


def test_health_counts_records_and_deliveries(definitions: Definitions) -> None:
    (row,) = definitions.tables["gold_queue_health"]
    assert (row["share_partitions"], row["log_records"], row["differences"]) == (1, 5, 1)
    assert (row["accepted"], row["archived"], row["to_try_again"], row["passed"]) == (4, 1, 4, 0)
    deliveries, records = 2 * 1 + 2 * 2 + 3 + 2 * 3 + 1 + 3, 9
    assert row["deliveries_per_record"] == pytest.approx(deliveries / records, abs=1e-4)
    assert row["redelivery_rate"] == pytest.approx(1 - records / deliveries, abs=1e-4)
