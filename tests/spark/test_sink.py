"""Rows that Spark publishes: in batches, as streams and in transactions."""

from __future__ import annotations

from tests.spark.tour import EVERYTHING, PARTITIONS, TOUR, Tour

pytestmark = TOUR


def test_rows_are_published(tour: Tour) -> None:
    assert tour.program.value("written") == 50
    assert tour.target == sorted(f"out {number}" for number in range(50))


def test_a_stream_is_published_and_counted(tour: Tour) -> None:
    assert tour.program.value("streamed") == sorted(value for _, _, value in EVERYTHING)
    assert tour.program.value("streamed_keys") == ["key"]
    assert tour.program.value("streamed_headers") == PARTITIONS
    size = sum(len(f"key{value}") for _, _, value in EVERYTHING)
    lines = [line for line in tour.program.errors.splitlines() if "sharebroker: published" in line]
    written = sum(len(f"k{number}out {number}") for number in range(50))
    assert f"sharebroker: published 50 records, {written} bytes of keys and values, by " in "\n".join(lines)
    batches = [line.split() for line in lines if " of batch " in line]
    assert [int(words[2]) for words in batches] == [900, 300]
    assert sum(int(words[7]) for words in batches) == size


def test_records_of_a_failed_attempt_are_aborted_with_transactions(tour: Tour) -> None:
    assert tour.program.value("once") == [3000, 3000]
    rows, different = tour.program.value("twice")
    assert different == 3000 < rows
