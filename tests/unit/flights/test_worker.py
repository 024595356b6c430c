"""A worker acknowledges each record and reports its acknowledgements."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sharebroker.aio.consumer import ShareConsumer
from sharebroker.consumer.config import RecordResult
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.record import Record
from sharebroker_server.flights import worker
from sharebroker_server.flights.core.flight import Flight, FlightAcknowledgement

FLIGHT = Flight("2013-01-01", "UA", "1", "N1", "EWR", "IAH", 517, 2, 11)


class FakeRecord:
    """A record that keeps its acknowledgement."""

    partition, offset, delivery_count = 1, 5, 1

    def __init__(self, flight: Flight) -> None:
        self.value = flight.payload()
        self.acknowledged: list[str] = []

    def accept(self) -> None:
        self.acknowledged.append("accept")

    def release(self) -> None:
        self.acknowledged.append("release")

    def reject(self, reason: str) -> None:
        self.acknowledged.append(f"reject {reason}")


class FakeConsumer:
    """A consumer with one batch."""

    def __init__(self, *records: FakeRecord) -> None:
        self.records = records
        self.commits = 0

    async def poll(self, timeout: float) -> tuple[FakeRecord, ...]:
        return self.records

    async def commit(self) -> list[Any]:
        self.commits += 1
        return []


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    written: list[Any] = []
    monkeypatch.setattr(worker, "write_report", lambda line: written.append(json.loads(line)))
    return written


@pytest.mark.parametrize(
    ("acknowledgement", "call"),
    [
        (FlightAcknowledgement.ACCEPT, "accept"),
        (FlightAcknowledgement.RELEASE, "release"),
        (FlightAcknowledgement.REJECT, "reject why"),
    ],
)
def test_record_is_acknowledged_once(acknowledgement: FlightAcknowledgement, call: str) -> None:
    record = FakeRecord(FLIGHT)
    worker.acknowledge(cast("Record", record), acknowledgement, "why")
    assert record.acknowledged == [call]


def test_delivery_names_record_route_and_delays() -> None:
    record = FakeRecord(replace(FLIGHT, arr_delay=None, dep_delay=None))
    delivery, _ = worker.judged_record(cast("Record", record))
    assert (delivery.record_id, delivery.delivery_count) == ((1, 5), 1)
    assert (delivery.carrier, delivery.route) == ("UA", "EWR-IAH")
    assert (delivery.departure, delivery.arrival) == (0, 0)


def test_failures_separate_lost_locks_and_unknown_outcomes() -> None:
    results = [
        SimpleNamespace(partition=0, offset=1, error=None),
        SimpleNamespace(partition=0, offset=2, error=KafkaError(ErrorCode.INVALID_RECORD_STATE)),
        SimpleNamespace(partition=0, offset=3, error=KafkaError(ErrorCode.REQUEST_TIMED_OUT)),
    ]
    assert worker.failures(cast("list[RecordResult]", results)) == {(0, 2): True, (0, 3): False}


async def test_batch_is_reported_before_and_after_the_commit(reports: list[Any]) -> None:
    record = FakeRecord(FLIGHT)
    consumer = FakeConsumer(record)
    await worker.process_batch(cast("ShareConsumer", consumer), 7)
    assert (record.acknowledged, consumer.commits, len(reports)) == (["accept"], 1, 2)


async def test_empty_poll_is_not_reported(reports: list[Any]) -> None:
    consumer = FakeConsumer()
    await worker.process_batch(cast("ShareConsumer", consumer), 7)
    assert (consumer.commits, reports) == (0, [])
