"""The failed records of share groups as a table in a real Spark."""

from __future__ import annotations

from tests.spark.tour import TOUR, Tour

pytestmark = TOUR


def test_rejected_records_are_in_the_table_of_failed_ones(tour: Tour) -> None:
    rows = tour.program.value("failed_records")
    assert {(topic, partition, disposition) for topic, partition, _, _, disposition in rows} == {
        (tour.judged_topic, 0, "rejected")
    }
    failed = {offset for _, _, first, last, _ in rows for offset in range(first, last + 1)}
    assert failed == {offset for offset, state in tour.judged.items() if state == 4}
