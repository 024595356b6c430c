"""Flights are published exactly once across restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_protocol.records.partitioner import partition_of
from sharebroker_server.flights.core.flight import Flight
from sharebroker_server.flights.fleet import Job
from sharebroker_server.flights.publish import Publisher, unpublished

FLIGHT = Flight("2013-01-01", "UA", "1", "N1", "EWR", "IAH", 517, 2, 11)
FLIGHTS = [replace(FLIGHT, tailnum=f"N{number}") for number in range(12)]
PARTITIONS = 3


def in_partition(partition: int) -> list[Flight]:
    return [flight for flight in FLIGHTS if partition_of(flight.key, PARTITIONS) == partition]


def test_empty_log_lacks_every_flight() -> None:
    assert list(unpublished(FLIGHTS, dict.fromkeys(range(PARTITIONS), 0))) == FLIGHTS


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_partition_has_its_first_flights(partition: int) -> None:
    assert len(in_partition(partition)) > 1
    ends = {number: len(in_partition(number)) for number in range(PARTITIONS)} | {partition: 1}
    assert list(unpublished(FLIGHTS, ends)) == in_partition(partition)[1:]


def test_complete_log_lacks_none() -> None:
    ends = {number: len(in_partition(number)) for number in range(PARTITIONS)}
    assert list(unpublished(FLIGHTS, ends)) == []


def test_flights_in_the_log_count_as_published() -> None:
    assert Publisher(Job("s", "g", "t"), {0: 3, 1: 4}).published == 7
