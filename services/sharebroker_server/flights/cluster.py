"""The supervisor's view of the server: the topic and the group, their positions, and publishing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from sharebroker import ErrorCode, KafkaError, TopicPartition
from sharebroker.aio import Admin, Producer
from sharebroker_protocol.records.partitioner import partition_of
from sharebroker_server.flights.core.flight import Flight
from sharebroker_server.flights.core.ledger import PartitionState, RecordId, finished_records

_RETRY_SECONDS: Final = 10.0
_UPSTREAM_SECONDS: Final = 40.0
_RETRY_PAUSE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """A run's server, topic and group; `upstream` is the Kafka cluster that has the records, if any."""

    server: str
    topic: str
    partitions: int
    group: str
    lock_seconds: int
    upstream: str = ""


class Cluster:
    """The administration of one run; every method raises KafkaError."""

    def __init__(self, admin: Admin, job: Job) -> None:
        self._admin = admin
        self._group = job.group
        self._job = job
        self._partitions = [TopicPartition(job.topic, number) for number in range(job.partitions)]

    @classmethod
    @asynccontextmanager
    async def connected(cls, job: Job) -> AsyncIterator[Cluster]:
        """Connects to the job's server."""
        async with Admin(job.server) as admin:
            yield cls(admin, job)

    async def prepare(self) -> None:
        """Creates the topic, or waits until the server has that of the Kafka cluster; configures the group.

        Retries for a few seconds: a server that has just started may be unreachable on a busy machine. It has
        a new topic of a Kafka cluster after at most `metadata.max.age.ms`, which is 30 seconds.
        """
        deadline = time.monotonic() + (_UPSTREAM_SECONDS if self._job.upstream else _RETRY_SECONDS)
        while True:
            try:
                return await self._prepare()
            except KafkaError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_RETRY_PAUSE)

    async def _prepare(self) -> None:
        if self._job.upstream:
            await self.ends()
        else:
            await self._create_topic()
        settings = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(self._job.lock_seconds * 1000),
            # A hanging worker is fenced when its locks time out; then its partitions are reassigned.
            "share.session.timeout.ms": str(self._job.lock_seconds * 1000),
            "share.heartbeat.interval.ms": "1000",
        }
        await self._admin.alter_group_configs(self._group, settings)

    async def _create_topic(self) -> None:
        try:
            await self._admin.create_topic(self._job.topic, self._job.partitions)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    async def ends(self) -> dict[int, int]:
        """Returns log end offsets by partition."""
        found = await self._admin.list_offsets(self._partitions)
        return {partition.partition: offset or 0 for partition, offset in found.items()}

    async def lag(self) -> int | None:
        """Returns the number of records that the group has not finished.

        Returns None if a partition's lag is unknown.
        """
        try:
            offsets = await self._admin.group_offsets(self._group)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND or error.retriable:
                return None
            raise
        lags = [offsets[partition].lag for partition in self._partitions if partition in offsets]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(self._partitions) else None

    async def finished(self) -> set[RecordId]:
        """Returns every accepted or archived record, according to the share coordinator's state."""
        states = {partition.partition: await self._state(partition) for partition in self._partitions}
        return finished_records(await self.ends(), states)

    async def _state(self, partition: TopicPartition) -> PartitionState:
        folded = (await self._admin.inspect_state(self._group, partition)).folded
        if folded is None:
            return PartitionState(0, ())
        runs = ((run.first_offset, run.last_offset, run.delivery_state) for run in folded.state_batches)
        return PartitionState(max(folded.start_offset, 0), tuple(runs))


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


class FlightPublisher:
    """Publishes flights, each once across restarts; `published` counts those in the log or in flight."""

    def __init__(self, server: str, topic: str, ends: Mapping[int, int]) -> None:
        self._server = server
        self._topic = topic
        self._ends = ends
        self.published = sum(ends.values())

    async def publish(self, flights: Iterable[Flight]) -> None:
        """Publishes the missing flights; returns when they are durable. Raises KafkaError."""
        async with Producer(self._server) as producer:
            for flight in unpublished(flights, self._ends):
                await producer.send(self._topic, flight.payload(), key=flight.key)
                self.published += 1
            await producer.flush()
