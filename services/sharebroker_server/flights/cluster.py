"""The supervisor's view of the server: the topic, the group, and their positions."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from sharebroker.aio.admin import Admin
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicPartition
from sharebroker_server.flights.core.ledger import RecordId
from sharebroker_server.flights.core.verdict import PartitionState, finished_records

_RETRY_SECONDS: Final = 10.0
_RETRY_PAUSE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Names:
    """The names and settings of a run."""

    topic: str
    partitions: int
    group: str
    lock_seconds: int


class Cluster:
    """The administration of one run; every method raises KafkaError."""

    def __init__(self, admin: Admin, names: Names) -> None:
        self._admin = admin
        self._group = names.group
        self._names = names
        self._partitions = [TopicPartition(names.topic, number) for number in range(names.partitions)]

    async def prepare(self) -> None:
        """Creates the topic and sets the group's configs.

        Retries for a few seconds: a server that has just started may be unreachable on a busy machine.
        """
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            try:
                return await self._prepare()
            except KafkaError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_RETRY_PAUSE)

    async def _prepare(self) -> None:
        try:
            await self._admin.create_topic(self._names.topic, self._names.partitions)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        settings = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(self._names.lock_seconds * 1000),
            # A hanging worker is fenced when its locks time out; then its partitions are reassigned.
            "share.session.timeout.ms": str(self._names.lock_seconds * 1000),
            "share.heartbeat.interval.ms": "1000",
        }
        await self._admin.alter_group_configs(self._group, settings)

    async def ends(self) -> dict[int, int]:
        """Returns log end offsets by partition."""
        found = await self._admin.list_offsets(self._partitions)
        return {partition.partition: offset or 0 for partition, offset in found.items()}

    async def lag(self) -> int | None:
        """Returns the number of records that the group has not finished; None if a partition's lag is
        unknown.
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
        runs = ((run.first_offset, run.last_offset, run.delivery_state) for run in folded.state_batches)
        return PartitionState(max(folded.start_offset, 0), tuple(runs))
