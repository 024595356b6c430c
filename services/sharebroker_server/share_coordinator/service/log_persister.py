"""The persister of topics that store share state in their own logs: calls the shard of the partition."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from typing_extensions import override

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_server.coordinator_runtime.host import expected
from sharebroker_server.persister.port import (
    Begun,
    Changes,
    Persister,
    SharePartitionState,
    StateSummary,
)
from sharebroker_server.share_coordinator.core import commands as c
from sharebroker_server.share_coordinator.service.partition_states import PartitionStates


class LogPersister(Persister):
    """Stores share state in the logs of the partitions that this process leads.

    The errors are those of the shards. A write is in one batch with the others of its partition.
    """

    def __init__(self, states: PartitionStates) -> None:
        self._states = states

    @override
    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, *, since_epoch: int | None = None
    ) -> None:
        keeps = since_epoch is not None
        await self._submit(key, c.Initialize(key, state_epoch, start_offset, keeps, True, since_epoch or 0))

    @override
    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        # The caller leads the partition: its epoch is that of the lease.
        reply = await self._submit(key, c.Read(key, leader_epoch, leader_epoch))
        found = expected(reply, c.ReadReply)
        return SharePartitionState(
            found.state_epoch, found.start_offset, found.state_batches, found.kept_since
        )

    @override
    def shard(self, key: SharePartitionKey) -> int:
        return key.partition

    @override
    def begin(self, shard: int, changes: Changes) -> Begun | None:
        by_partition: dict[tuple[str, int], list[int]] = {}
        for index, (key, _) in enumerate(changes):
            by_partition.setdefault((key.topic_id, key.partition), []).append(index)
        started: list[tuple[Sequence[int], asyncio.Future[list[c.Reply | KafkaError]]]] = []
        try:
            for partition, indices in by_partition.items():
                commands = [c.Write(changes[index][0], *changes[index][1]) for index in indices]
                started.append((indices, self._states.shard(*partition).submit_all(commands)))
        except KafkaError:
            if not started:
                return None
        return asyncio.ensure_future(_outcomes(len(changes), started))

    @override
    async def write(self, key: SharePartitionKey, change: StateWrite) -> None:
        await self._submit(key, c.Write(key, *change))

    @override
    async def delete(self, key: SharePartitionKey, state_epoch: int) -> None:
        await self._submit(key, c.Delete(key, state_epoch))

    @override
    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        found = expected(await self._submit(key, c.Summarize(key)), c.SummaryReply)
        return StateSummary(
            found.state_epoch,
            found.leader_epoch,
            found.start_offset,
            found.delivery_complete_count,
            found.waiting_count,
            found.locked_count,
            found.archiving_count,
        )

    def _submit(self, key: SharePartitionKey, command: c.Command) -> asyncio.Future[c.Reply]:
        return self._states.shard(key.topic_id, key.partition).submit(command)


async def _outcomes(
    number: int, started: Sequence[tuple[Sequence[int], asyncio.Future[list[c.Reply | KafkaError]]]]
) -> list[object]:
    """Returns the outcome of each of `number` writes: an error if it was not started or failed."""
    outcomes: list[object] = [KafkaError(ErrorCode.NOT_COORDINATOR)] * number
    for indices, written in started:
        try:
            found: Sequence[object] = await written
        except KafkaError as error:
            found = [error] * len(indices)
        for index, outcome in zip(indices, found, strict=True):
            outcomes[index] = outcome
    return outcomes
