"""The rules that reject a flight."""

from __future__ import annotations

from sharebroker_server.pipeline.core import flights


def test_every_field_of_a_flight_has_a_column() -> None:
    columns = [expression.rpartition(" AS ")[2] for expression in flights.typed()]
    assert columns == [*flights.TEXTS, *flights.NUMBERS, "hour"]
    assert flights.reason().startswith("CASE WHEN text IS NULL THEN 'no value' ")
    assert len(flights.rules()) == flights.reason().count(" WHEN ")
