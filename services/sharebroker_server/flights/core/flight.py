"""One flight as it is published, and what a worker says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

_MISSING: Final = ("", "NA")
MOST_TRIES: Final = 2
"""Deliveries after which a flight without an arrival is given up."""


class Answer(StrEnum):
    """What a worker says of a record."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Flight:
    """A row of the input; delays in minutes, None where the input has no value."""

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
        """The flight of a row of `flights.csv`."""
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
        """The flight of a record's value. Raises ValueError when it is not one."""
        try:
            return Flight(**json.loads(payload))
        except TypeError as failure:
            raise ValueError(f"not a flight: {payload[:80]!r}") from failure

    @property
    def key(self) -> bytes:
        """The record's key: the aircraft, so that its flights stay in order; unknown ones share a key."""
        return self.tailnum.encode() or b"unknown"

    def payload(self) -> bytes:
        """The record's value."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def judge(flight: Flight, delivery_count: int) -> tuple[Answer, str]:
    """What to answer, and why.

    A flight that never left cannot be processed; one without an arrival is released for another try.
    """
    if flight.dep_time is None:
        return Answer.REJECT, "never departed"
    if flight.arr_delay is not None:
        return Answer.ACCEPT, ""
    if delivery_count < MOST_TRIES:
        return Answer.RELEASE, "no arrival yet"
    return Answer.REJECT, "no arrival"


def _number(text: str) -> int | None:
    return None if text in _MISSING else int(text)
