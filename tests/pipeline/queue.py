"""A work queue with a history: flights and broken records, some released, rejected or unacknowledged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sharebroker.aio.admin import Admin
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1.share_pb2 import ShareRecord
from sharebroker_protocol.model import TopicPartition
from sharebroker_server.flights.cluster import FlightPublisher
from sharebroker_server.flights.core.flight import Flight, FlightAcknowledgement, judge
from tests.support.client import ACCEPT, REJECT, RELEASE, TIMEOUT, Client
from tests.testkit.waiting import eventually

TOPIC, WORKERS, READERS = "flights", "delays", "pipeline"
SERVER_OPTIONS = (
    "--set",
    "group.share.min.record.lock.duration.ms=1000",
    # On a slow machine deltas would be trimmed before Spark reads them.
    "--set",
    "share.coordinator.cold.partition.snapshot.interval.ms=86400000",
)
_LOCK_MS = 1000
_AT_ONCE = 500
_UNACKNOWLEDGED, _STUBBORN = 211, 1009

_GOOD = Flight("2013-12-31", "ZZ", "1", "", "JFK", "LGA", 900, 0, 0)


def broken() -> dict[str, bytes]:
    """Returns records that are no flights, by the reason for which silver has to reject them."""

    def flight(**change: object) -> bytes:
        fields = json.loads(_GOOD.payload()) | change
        return json.dumps({name: value for name, value in fields.items() if value != "left out"}).encode()

    return {
        "no value": b"",
        "not UTF-8": b"\xff\xfe",
        "not a JSON object": b'{"date": "2013',
        "carrier is missing": flight(carrier="left out"),
        "date is not a date": flight(date="soon"),
        "dep_delay is not a number": flight(dep_delay="late"),
        "dep_time is not a time of day": flight(dep_time=1275),
    }


@dataclass
class Published:
    """The contents of a topic, and how many records silver has to reject, by reason."""

    records: int = 0
    rejected: dict[str, int] = field(default_factory=dict)

    def reject(self, reason: str) -> None:
        self.rejected[reason] = self.rejected.get(reason, 0) + 1


async def publish(client: Client, address: str, flights: Iterable[Flight], partitions: int) -> Published:
    """Creates the topic, and publishes flights and one of each broken record."""
    await client.create(partitions, name=TOPIC)
    found = Published()

    def counted() -> Iterable[Flight]:
        for flight in flights:
            found.records += 1
            response, reason = judge(flight, 2)
            if response is FlightAcknowledgement.REJECT:
                found.reject(reason)
            yield flight

    await FlightPublisher(address, TOPIC, dict.fromkeys(range(partitions), 0)).publish(counted())
    bad = broken()
    records = [
        produce.PublishRecord(value=value) if value else produce.PublishRecord() for value in bad.values()
    ]
    await client.produce.Publish(produce.PublishRequest(topic=TOPIC, records=records), timeout=TIMEOUT)
    for reason in bad:
        found.records += 1
        found.reject(reason)
    return found


async def work(client: Client, admin: Admin, records: int) -> None:
    """Runs workers over about this many records: most accepted, some rejected, released, or left to their
    lock timeout.

    A few are released at every delivery, so that they are archived at the delivery limit.
    """
    await admin.alter_group_configs(WORKERS, {"share.auto.offset.reset": "earliest"})
    handled = 0
    async with _locks_that_run_out(admin, WORKERS):
        while handled < records:
            got = (await client.acquire(WORKERS, TOPIC, _AT_ONCE, member="worker")).records
            handled += len(got)
            for kind in (ACCEPT, RELEASE, REJECT):
                chosen = [record for record in got if _decision(record) == kind]
                if chosen:
                    await client.acknowledge(WORKERS, "worker", chosen, kind)


async def disturb(client: Client, admin: Admin, records: int) -> None:
    """Acquires this many records for the readers' group, releases every other and leaves the rest to
    their lock timeout.
    """
    await admin.alter_group_configs(READERS, {"share.auto.offset.reset": "earliest"})
    async with _locks_that_run_out(admin, READERS):
        got = await client.acquire_all(READERS, TOPIC, records, "careless")
        await client.acknowledge(READERS, "careless", got[::2], RELEASE)

        async def run_out() -> bool:
            held = await admin.inspect_records(READERS, dict.fromkeys(_partitions(got), -1))
            return not any(part.in_delivery for part in held.values())

        await eventually(run_out, 60)


@asynccontextmanager
async def _locks_that_run_out(admin: Admin, group: str) -> AsyncIterator[None]:
    await admin.alter_group_configs(group, {"share.record.lock.duration.ms": str(_LOCK_MS)})
    yield
    await admin.alter_group_configs(group, {"share.record.lock.duration.ms": None})


def _decision(record: ShareRecord) -> int:
    """Returns 0 for no acknowledgement, at the first delivery."""
    if record.offset % _STUBBORN == 7:
        return RELEASE
    if record.offset % _UNACKNOWLEDGED == 5 and record.delivery_count == 1:
        return 0
    try:
        response, _ = judge(Flight.of_payload(record.text.encode()), record.delivery_count)
    except ValueError:
        return REJECT
    return {
        FlightAcknowledgement.ACCEPT: ACCEPT,
        FlightAcknowledgement.RELEASE: RELEASE,
        FlightAcknowledgement.REJECT: REJECT,
    }[response]


def _partitions(records: Sequence[ShareRecord]) -> set[TopicPartition]:
    return {TopicPartition(record.topic, record.partition) for record in records}
