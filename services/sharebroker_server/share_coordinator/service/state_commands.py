"""Sends the command of each partition to its shard, with one result each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_server.leases.port import LeaseStore
from sharebroker_server.persister.port import Begun, Changes, SharePartitionState
from sharebroker_server.rpc.errors import refusal
from sharebroker_server.share_coordinator.core import commands as c
from sharebroker_server.share_coordinator.service.lease_bound import read_within_lease
from sharebroker_server.share_coordinator.service.partition_states import PartitionStates, StateShard
from sharebroker_server.share_coordinator.service.shards import Host, make_route
from sharebroker_server.share_coordinator.service.write_traces import trace_write

if TYPE_CHECKING:
    from sharebroker_server.leases.names import Shard

Fields = Callable[[Any], dict[str, Any]]
"""Returns the fields of a partition's result for the reply to its command."""


def _no_fields(_: object) -> dict[str, Any]:
    return {}


class StateCommands:
    """Starts commands on the shards of `host`, and on those of the partitions' own logs, `states`.

    `partition_exists(topic_id, partition)` looks a partition up in the metadata cache. `leases` bound the
    leader epoch of reads. `route` returns the key of a share-partition and its shard of `host`.
    """

    def __init__(
        self,
        host: Host,
        states: PartitionStates,
        leases: LeaseStore,
        partition_exists: Callable[[str, int], bool],
    ) -> None:
        self.route = make_route(host)
        self._host = host
        self._states = states
        self._leases = leases
        self._partition_exists = partition_exists

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        """Reads a state for its leader."""
        reply = await self._submit(*key, lambda own: c.Read(own, leader_epoch))
        assert isinstance(reply, c.ReadReply)
        return SharePartitionState(
            reply.state_epoch, reply.start_offset, reply.state_batches, reply.kept_since
        )

    def write(self, key: SharePartitionKey, change: StateWrite) -> Begun:
        """Starts a state write."""
        return self._submit(*key, lambda own: c.Write(own, *change))

    def write_all(self, shard: Shard, changes: Changes) -> Begun:
        """Starts state writes to one shard; an invalid key rejects all."""
        commands = [c.Write(self._existing(*key)[0], *change) for key, change in changes]
        runtime = self._states.shard(shard) if isinstance(shard, str) else self._host.shard(shard)
        return runtime.submit_all(commands)

    async def delete_topic(self, topic_id: str) -> tuple[int, Sequence[int]]:
        """Removes the state of a topic from every shard held here. Raises KafkaError: retry.

        Returns the number of share-partitions whose state was removed, and the shards.
        """
        shards = self._host.indices()
        command = c.DeleteTopicState(topic_id)
        removed = await asyncio.gather(*[self._host.shard(index).submit(command) for index in shards])
        return sum(n for n in removed if isinstance(n, int)), shards

    async def each(
        self,
        request: Any,
        command: Callable[[SharePartitionKey, Any], c.Command],
        shape: Any,
        fields: Fields = _no_fields,
    ) -> Iterable[Any]:
        """Returns one result per partition, in request order; starts all before it awaits the first."""
        if not request.group_id:
            return []
        started = [
            (
                topic.topic_id,
                [self._start(request.group_id, topic.topic_id, p, command) for p in topic.partitions],
            )
            for topic in request.topics
        ]
        return [
            shape(topic_id=topic_id, partitions=[await _result(*pair, fields) for pair in partitions])
            for topic_id, partitions in started
        ]

    def _start(
        self, group_id: str, topic_id: str, item: Any, command: Callable[[SharePartitionKey, Any], c.Command]
    ) -> tuple[int, asyncio.Future[c.Reply] | KafkaError]:
        partition: int = item if isinstance(item, int) else item.partition
        try:
            outcome = self._submit(group_id, topic_id, partition, lambda key: command(key, item))
        except KafkaError as error:
            return partition, error
        return partition, outcome

    def _submit(
        self, group_id: str, topic_id: str, partition: int, command: Callable[[SharePartitionKey], c.Command]
    ) -> asyncio.Future[c.Reply]:
        key, index = self._existing(group_id, topic_id, partition)
        request = command(key)
        if self._states.has_topic(topic_id):
            return asyncio.ensure_future(self._submit_to_leader(request, topic_id, partition))
        return self._submitted(self._host.shard(index), request)

    async def _submit_to_leader(self, request: c.Command, topic_id: str, partition: int) -> c.Reply:
        return await self._submitted(await self._states.claimed(topic_id, partition), request)

    def _submitted(self, shard: StateShard, request: c.Command) -> asyncio.Future[c.Reply]:
        if isinstance(request, c.Read):
            return asyncio.ensure_future(read_within_lease(shard, self._leases, request))
        written = shard.submit(request)
        if tracing.on is not None and isinstance(request, c.Write):
            trace_write(tracing.on, written, request)
        return written

    def _existing(self, group_id: str, topic_id: str, partition: int) -> tuple[SharePartitionKey, int]:
        """Returns the key of an existing partition and its shard."""
        key, index = self.route(group_id, topic_id, partition)
        if not self._partition_exists(topic_id, partition):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, metadata={"key": str(key)})
        return key, index


async def _result(
    partition: int, outcome: asyncio.Future[c.Reply] | KafkaError, fields: Fields
) -> dict[str, Any]:
    try:
        if isinstance(outcome, KafkaError):
            raise outcome
        return {"partition": partition, **fields(await outcome)}
    except KafkaError as error:
        return {"partition": partition, **refusal(error)}
