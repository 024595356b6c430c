"""A flight as published, and the decision of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import orjson

_MISSING: Final = ("", "NA")
MAX_DELIVERIES: Final = 2
"""The number of deliveries after which a flight without an arrival is rejected."""


class FlightAcknowledgement(StrEnum):
    """The acknowledgement of a record."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Flight:
    """A row of the input; delays in minutes, None for missing values."""

    date: str
    carrier: str
    flight: str
    tailnum: str
    origin: str
    dest: str
    dep_time: int | None
    dep_delay: int | None
    arr_delay: int | None

    @staticmethod
    def of_row(row: Mapping[str, str]) -> Flight:
        """Returns the flight of a row of `flights.csv`."""
        return Flight(
            date=f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}",
            carrier=row["carrier"],
            flight=row["flight"],
            tailnum="" if row["tailnum"] in _MISSING else row["tailnum"],
            origin=row["origin"],
            dest=row["dest"],
            dep_time=_number(row["dep_time"]),
            dep_delay=_number(row["dep_delay"]),
            arr_delay=_number(row["arr_delay"]),
        )

    @staticmethod
    def of_payload(payload: bytes) -> Flight:
        """Returns the flight of a record's value. Raises ValueError if it is invalid."""
        try:
            return Flight(**orjson.loads(payload))
        except TypeError as failure:
            raise ValueError(f"not a flight: {payload[:80]!r}") from failure

    @property
    def key(self) -> bytes:
        """The record's key: the aircraft, so that its flights stay in order; unknown aircraft share a key."""
        return self.tailnum.encode() or b"unknown"

    def payload(self) -> bytes:
        """Returns the record's value."""
        return orjson.dumps(self)


def judge(flight: Flight, delivery_count: int) -> tuple[FlightAcknowledgement, str]:
    """Returns the acknowledgement of a flight, and the reason.

    A flight that never departed cannot be processed; one without an arrival is released for redelivery.
    """
    if flight.dep_time is None:
        return FlightAcknowledgement.REJECT, "never departed"
    if flight.arr_delay is not None:
        return FlightAcknowledgement.ACCEPT, ""
    if delivery_count < MAX_DELIVERIES:
        return FlightAcknowledgement.RELEASE, "no arrival yet"
    return FlightAcknowledgement.REJECT, "no arrival"


def _number(text: str) -> int | None:
    return None if text in _MISSING else int(text)
