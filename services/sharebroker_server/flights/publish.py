"""Publishing the flights, each once, however often it is started anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sharebroker.aio.producer import Producer
from sharebroker_protocol.records.murmur2 import partition_of
from sharebroker_server.flights.core.flight import Flight
from sharebroker_server.flights.fleet import Job


def unpublished(flights: Iterable[Flight], ends: Mapping[int, int]) -> Iterator[Flight]:
    """The flights that are not in the log yet, which holds `ends` of them by partition.

    Keys decide the partition and order is kept within it, so the first ones of each partition are there.
    """
    left = dict(ends)
    for flight in flights:
        partition = partition_of(flight.key, len(ends))
        if left[partition] > 0:
            left[partition] -= 1
        else:
            yield flight


class Publisher:
    """Publishes flights; `published` counts those in the log or on their way."""

    def __init__(self, job: Job, ends: Mapping[int, int]) -> None:
        self._job = job
        self._ends = ends
        self.published = sum(ends.values())

    async def publish(self, flights: Iterable[Flight]) -> None:
        """Publishes what is missing and waits until all of it is durable. Raises KafkaError."""
        async with Producer(self._job.server) as producer:
            for flight in unpublished(flights, self._ends):
                await producer.send(self._job.topic, flight.payload(), key=flight.key)
                self.published += 1
            await producer.flush()
