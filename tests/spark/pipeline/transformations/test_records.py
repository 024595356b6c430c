"""Bronze, silver and gold of flights and of records that are none."""

from __future__ import annotations

import pytest

from tests.pipeline.queue import broken
from tests.spark.environment import START_SECONDS, needs_spark
from tests.spark.pipeline.conftest import FLIGHTS, Definitions, bronze

pytestmark = [
    needs_spark,
    pytest.mark.slow,
    pytest.mark.timeout(START_SECONDS),
    pytest.mark.xdist_group("spark definitions"),
]


def test_records_are_streamed_and_aggregates_are_recomputed(definitions: Definitions) -> None:
    streamed = {"bronze_records", "silver_records", "silver_rejected"}
    assert {name for name, (kind, _) in definitions.outputs.items() if kind == "StreamingTable"} == streamed
    assert all(comment.endswith(".") for _, comment in definitions.outputs.values())


def test_silver_has_typed_flights(definitions: Definitions) -> None:
    first = next(row for row in definitions.tables["silver_records"] if row["_offset"] == 0)
    flight = FLIGHTS[0]
    assert (first["date"], first["carrier"], first["dep_time"]) == (flight.date, flight.carrier, 517)
    assert (first["dep_delay"], first["arr_delay"], first["_delivery_count"]) == (2, 10, 1)


def test_each_record_is_either_a_flight_or_rejected(definitions: Definitions) -> None:
    flights = [row["_offset"] for row in definitions.tables["silver_records"]]
    rejected = [row["offset"] for row in definitions.tables["silver_rejected"]]
    assert sorted(flights + rejected) == [row["offset"] for row in bronze()]


def test_rejected_records_have_the_first_reason(definitions: Definitions) -> None:
    reasons = [row["reason"].partition(":")[0] for row in definitions.tables["silver_rejected"]]
    assert sorted(reasons) == sorted([*broken(), "never departed", "no arrival"])


def test_invalid_utf_8_is_shown_with_replacement_characters(definitions: Definitions) -> None:
    (row,) = [row for row in definitions.tables["silver_rejected"] if row["reason"] == "not UTF-8"]
    assert row["text"] == "\ufffd\ufffd"


def test_departures_before_midnight_and_after_share_an_hour(definitions: Definitions) -> None:
    hours = {row["hour"]: row["flights"] for row in definitions.tables["gold_delay_by_hour"]}
    assert hours == {5: 2, 0: 2}


def test_late_flights_arrive_more_than_fifteen_minutes_late(definitions: Definitions) -> None:
    carriers = {row["carrier"]: row for row in definitions.tables["gold_delay_by_carrier"]}
    united = carriers["UA"]  # 10, 20 and, a second time, 10 minutes
    assert (united["flights"], float(united["late_share"])) == (3, 0.3333)
    assert (united["arrival_minutes"], united["departure_minutes"]) == (13.33, 2.67)
    assert float(carriers["AA"]["late_share"]) == 0.0


def test_delays_are_grouped_by_route(definitions: Definitions) -> None:
    routes = {
        (row["origin"], row["dest"]): row["flights"] for row in definitions.tables["gold_delay_by_route"]
    }
    assert routes == {("EWR", "IAH"): 3, ("JFK", "MIA"): 1}


def test_rejected_records_are_counted_without_their_values(definitions: Definitions) -> None:
    counted = {row["reason"]: row["records"] for row in definitions.tables["gold_rejected"]}
    assert counted == dict.fromkeys([*broken(), "never departed", "no arrival"], 1)


def test_seconds_run_from_publishing_to_reading(definitions: Definitions) -> None:
    rows = {row["delivery_count"]: row for row in definitions.tables["gold_deliveries"]}
    assert {count: row["records"] for count, row in rows.items()} == {1: len(bronze()) - 1, 2: 1}
    assert (rows[1]["seconds_p50"], rows[2]["seconds_max"]) == (1.0, 5.0)
