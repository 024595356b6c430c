"""The state of share groups, and their failed records, as tables in a real Spark."""

from __future__ import annotations

from tests.spark.tour import TOUR, Tour

pytestmark = TOUR


def test_state_in_memory_has_a_row_per_run_of_offsets(tour: Tour) -> None:
    rows = [row for row in tour.program.value("state") if row["kind"] == "answer"]
    assert {
        offset: row["delivery_state"]
        for row in rows
        for offset in range(row["first_offset"], row["last_offset"] + 1)
    } == tour.judged


def test_log_of_state_starts_with_a_checkpoint(tour: Tour) -> None:
    stored = [row for row in tour.program.value("state") if row["kind"] != "answer"]
    assert next(row["kind"] for row in stored) == "checkpoint"
    assert {row["kind"] for row in stored} <= {"checkpoint", "delta"}
    assert all(row["written"] for row in stored)
    positions = [row["position"] for row in stored]
    assert positions == sorted(positions)


def test_unknown_group_is_named(tour: Tour) -> None:
    assert "Share group 'absent' does not exist" in tour.program.value("absent")


def test_rejected_records_are_in_the_table_of_failed_ones(tour: Tour) -> None:
    rows = tour.program.value("failed_records")
    assert {(topic, partition, disposition) for topic, partition, _, _, disposition in rows} == {
        (tour.judged_topic, 0, "rejected")
    }
    failed = {offset for _, _, first, last, _ in rows for offset in range(first, last + 1)}
    assert failed == {offset for offset, state in tour.judged.items() if state == 4}
