"""What the supervisor asks of the server: the topic, the group, where both stand."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from sharebroker.aio.admin import Admin
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicPartition
from sharebroker_server.flights.core.ledger import Place
from sharebroker_server.flights.core.verdict import PartitionState, finished_places

_PATIENCE: Final = 10.0
_AGAIN: Final = 0.2


@dataclass(frozen=True, slots=True)
class Names:
    """What a run works on."""

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
        """The topic and the group's settings, made where they are not there yet.

        Tried for a while: a server that has just started may not be reached at once on a busy machine.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return await self._prepare()
            except KafkaError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_AGAIN)

    async def _prepare(self) -> None:
        try:
            await self._admin.create_topic(self._names.topic, self._names.partitions)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        settings = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(self._names.lock_seconds * 1000),
            # A worker that hangs is counted out when its locks run out: then its partitions go to others.
            "share.session.timeout.ms": str(self._names.lock_seconds * 1000),
            "share.heartbeat.interval.ms": "1000",
        }
        await self._admin.alter_group_configs(self._group, settings)

    async def ends(self) -> dict[int, int]:
        """Log end offsets by partition."""
        found = await self._admin.list_offsets(self._partitions)
        return {place.partition: offset or 0 for place, offset in found.items()}

    async def lag(self) -> int | None:
        """Records the group has not finished; None while the server does not know of all partitions."""
        try:
            offsets = await self._admin.group_offsets(self._group)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND or error.retriable:
                return None
            raise
        lags = [offsets[place].lag for place in self._partitions if place in offsets]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(self._partitions) else None

    async def finished(self) -> set[Place]:
        """Every record that is accepted or archived for good, by the share coordinator's state."""
        states = {place.partition: await self._state(place) for place in self._partitions}
        return finished_places(await self.ends(), states)

    async def _state(self, place: TopicPartition) -> PartitionState:
        folded = (await self._admin.inspect_state(self._group, place)).folded
        runs = ((run.first_offset, run.last_offset, run.delivery_state) for run in folded.state_batches)
        return PartitionState(max(folded.start_offset, 0), tuple(runs))
