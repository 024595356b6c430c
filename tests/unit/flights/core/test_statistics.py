"""The progress of a run, and delays by carrier and route."""

from __future__ import annotations

import json

import pytest

from sharebroker_server.flights.core.flight import FlightAcknowledgement
from sharebroker_server.flights.core.statistics import Delays, Rate, RunProgress, RunSummary


def summary(*flights: tuple[str, str, int]) -> RunSummary:
    found = RunSummary()
    for carrier, route, late in flights:
        found.count(FlightAcknowledgement.ACCEPT, carrier, route, (late - 1, late))
    return found


def test_flights_are_summed_by_carrier_and_route() -> None:
    found = summary(("UA", "EWR-IAH", 10), ("UA", "EWR-SFO", 20), ("AA", "EWR-IAH", -6))
    assert found.carriers == {"UA": Delays(2, 28, 30), "AA": Delays(1, -7, -6)}
    assert found.routes == {"EWR-IAH": Delays(2, 2, 4), "EWR-SFO": Delays(1, 19, 20)}
    assert found.finished == 3


def test_rejected_flights_have_no_delay() -> None:
    found = RunSummary()
    found.count(FlightAcknowledgement.REJECT, "UA", "EWR-IAH", (5, 5))
    assert found.carriers == {"UA": Delays(rejected=1)}
    assert (found.carriers["UA"].mean_arrival, found.carriers["UA"].mean_departure) == (0.0, 0.0)


def test_summaries_add_up() -> None:
    flights = [("UA", "EWR-IAH", 10), ("UA", "EWR-SFO", 20), ("AA", "EWR-IAH", -6)]
    left = summary(*flights[:1])
    left.add(summary(*flights[1:]))
    assert left == summary(*flights)


def test_round_trip_as_json() -> None:
    found = summary(("UA", "EWR-IAH", 10))
    assert RunSummary.of_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_longest_delays_are_listed_first() -> None:
    found = summary(("UA", "a", 10), ("AA", "b", 20), ("B6", "c", 20))
    assert [name for name, _ in found.by_carrier()] == ["AA", "B6", "UA"]
    assert [name for name, _ in found.worst_routes(2, at_least=1)] == ["b", "c"]
    assert found.worst_routes(2) == []
    assert found.by_carrier()[0][1].mean_arrival == 20
    assert found.by_carrier()[0][1].mean_departure == 19


def test_progress_line_contains_every_number() -> None:
    shown = RunProgress(1000, 900, 5, 10, 3, 90, 1234.5).line()
    assert shown == (
        "published 1,000  accepted 900  released 5  rejected 10  locks lost 3  lag 90  records/s 1,234"
    )


def test_lag_may_be_unknown() -> None:
    assert ("lag", "-") in RunProgress().cells()


def test_rate_covers_the_last_seconds_only() -> None:
    rate = Rate(span=2.0)
    assert rate.sample(0, 0.0) == 0.0
    assert rate.sample(100, 1.0) == pytest.approx(100.0)
    assert rate.sample(100, 2.5) == pytest.approx(0.0)
    assert rate.sample(100, 9.0) == 0.0
