"""The format in a real Spark against a real server: tables, streams, writes, rejected options."""

from __future__ import annotations

from tests.spark.tour import EVERYTHING, JUDGED, PARTITIONS, RECORDS, TOUR, Tour

pytestmark = TOUR


def test_table_has_the_documented_columns(tour: Tour) -> None:
    assert tour.program.value("columns") == [
        "key binary",
        "value binary",
        "topic string",
        "partition int",
        "offset bigint",
        "timestamp timestamp",
        "headers array<struct<key:string,value:binary>>",
        "delivery_count int",
        "lock_deadline timestamp",
    ]


def test_table_read_acquires_nothing_and_has_the_requested_tasks(tour: Tour) -> None:
    assert tour.program.value("table") == EVERYTHING
    assert tour.program.value("tasks") == 3
    assert tour.program.value("unacquired")
    assert tour.program.value("between") == 4


def test_stream_delivers_every_record_once_in_batches(tour: Tour) -> None:
    batches = tour.program.value("batches")
    assert [len(batch["records"]) for batch in batches] == [500, 500, 200]
    assert sorted(record for batch in batches for record in batch["records"]) == EVERYTHING
    assert [batch["again"] for batch in batches] == [500, 500, 200]


def test_rows_have_their_delivery_metadata(tour: Tour) -> None:
    for batch in tour.program.value("batches"):
        assert (batch["counts"], batch["locked"], batch["keys"]) == ([1], True, ["key"])
    assert ["from", "test"] in tour.program.value("batches")[0]["headers"]


def test_the_last_batch_is_committed_too(tour: Tour) -> None:
    assert tour.finished == [set(range(RECORDS))] * PARTITIONS
    assert tour.program.value("idle") == 0


def test_a_topic_without_records_is_an_empty_table(tour: Tour) -> None:
    assert tour.program.value("empty") == 0


def test_invalid_options_are_rejected_by_name(tour: Tour) -> None:
    number, address, column, stream, kind, promise, *others = tour.program.value("refusals")
    assert "option maxRecordsPerTrigger is 0; 1 to 1000000 is allowed" in number
    assert "option bootstrap" in address
    assert "column value is missing" in column
    assert "column value is missing" in stream
    assert "option value.schema cannot be read from JSON" in kind
    assert "option value.schema declares id NOT NULL" in promise
    unknown, schema, overwrite, header = others
    assert "option value.schema has a field 'id BIGGINT'" in unknown
    assert "a schema cannot be set" in schema
    assert "a topic cannot be overwritten: mode must be append" in overwrite
    assert "Column headers contains a header without a key" in header


def test_options_invalid_for_streams_end_the_stream(tour: Tour) -> None:
    ungrouped, now, always = tour.program.value("streams")
    assert "option group is missing" in ungrouped
    for text in (now, always):
        assert "option startingOffsets is 'earliest', but applies to batch reads only" in text
    assert not [text for text in (ungrouped, now, always) if "UnboundLocalError" in text]


def test_missing_topics_and_groups_are_named(tour: Tour) -> None:
    assert "option endingOffsets ends" in tour.program.value("behind")


def test_readme_example_works(tour: Tour) -> None:
    assert tour.program.value("readme") == JUDGED
