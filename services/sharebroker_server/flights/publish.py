"""Publishes the flights, each exactly once across restarts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sharebroker.aio.producer import Producer
from sharebroker_protocol.records.partitioner import partition_of
from sharebroker_server.flights.core.flight import Flight
from sharebroker_server.flights.fleet import Job


def unpublished(flights: Iterable[Flight], ends: Mapping[int, int]) -> Iterator[Flight]:
    """Yields the flights that are missing in the log, whose partitions have `ends` records.

    Keys determine the partition, and the order within it is kept, so each partition has its first flights.
    """
    remaining = dict(ends)
    for flight in flights:
        partition = partition_of(flight.key, len(ends))
        if remaining[partition] > 0:
            remaining[partition] -= 1
        else:
            yield flight


class Publisher:
    """Publishes flights; `published` counts those in the log or in flight."""

    def __init__(self, job: Job, ends: Mapping[int, int]) -> None:
        self._job = job
        self._ends = ends
        self.published = sum(ends.values())

    async def publish(self, flights: Iterable[Flight]) -> None:
        """Publishes the missing flights; returns when they are durable. Raises KafkaError."""
        async with Producer(self._job.server) as producer:
            for flight in unpublished(flights, self._ends):
                await producer.send(self._job.topic, flight.payload(), key=flight.key)
                self.published += 1
            await producer.flush()
