from __future__ import annotations

import pytest

from sharebroker_server.flights.core.flight import Flight, FlightAcknowledgement, judge

ROW = {
    "year": "2013",
    "month": "1",
    "day": "2",
    "dep_time": "517",
    "dep_delay": "2",
    "arr_delay": "-11",
    "carrier": "UA",
    "flight": "1545",
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
}


def test_row_becomes_a_flight() -> None:
    assert Flight.of_row(ROW) == Flight("2013-01-02", "UA", "1545", "N14228", "EWR", "IAH", 517, 2, -11)


@pytest.mark.parametrize("missing", ["", "NA"])
def test_missing_values_are_none(missing: str) -> None:
    flight = Flight.of_row(ROW | dict.fromkeys(("dep_time", "dep_delay", "arr_delay", "tailnum"), missing))
    assert (flight.dep_time, flight.dep_delay, flight.arr_delay, flight.tailnum) == (None, None, None, "")


def test_payload_round_trip() -> None:
    flight = Flight.of_row(ROW)
    assert Flight.of_payload(flight.payload()) == flight


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"carrier": "UA"}'])
def test_invalid_payload_is_rejected(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Flight.of_payload(payload)


def test_key_is_the_aircraft() -> None:
    assert Flight.of_row(ROW).key == b"N14228"
    assert Flight.of_row(ROW | {"tailnum": "NA"}).key == b"unknown"


@pytest.mark.parametrize(
    ("changed", "count", "response"),
    [
        ({}, 1, FlightAcknowledgement.ACCEPT),
        ({}, 4, FlightAcknowledgement.ACCEPT),
        ({"dep_time": "NA", "dep_delay": "NA", "arr_delay": "NA"}, 1, FlightAcknowledgement.REJECT),
        ({"arr_delay": "NA"}, 1, FlightAcknowledgement.RELEASE),
        ({"arr_delay": "NA"}, 2, FlightAcknowledgement.REJECT),
        ({"arr_delay": "NA"}, 3, FlightAcknowledgement.REJECT),
    ],
)
def test_acknowledge_type_depends_on_fields_and_delivery_count(
    changed: dict[str, str], count: int, response: FlightAcknowledgement
) -> None:
    assert judge(Flight.of_row(ROW | changed), count)[0] is response
