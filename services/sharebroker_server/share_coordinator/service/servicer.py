"""The share coordinator's RPCs: sends each partition's command to its shard, with one result each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import (
    ShareCoordinatorServiceServicer,
)
from sharebroker_protocol.tracing import names
from sharebroker_server.coordinator_runtime.host import ShardHost, shard_of
from sharebroker_server.leases.port import LeaseStore
from sharebroker_server.persister.port import Begun, Changes
from sharebroker_server.rpc.errors import refusal
from sharebroker_server.shard_topic.reading import fetch, find_offset
from sharebroker_server.share_coordinator.config import ShareCoordinatorConfig
from sharebroker_server.share_coordinator.core import commands as c
from sharebroker_server.share_coordinator.core.machine import ShareCoordinatorMachine
from sharebroker_server.share_coordinator.core.state import ShareRecord
from sharebroker_server.share_coordinator.service.inspection import inspect
from sharebroker_server.share_coordinator.service.lease_bound import read_within_lease
from sharebroker_server.share_coordinator.service.messages import INITIALIZE, READ_REPLY, SUMMARY, WRITE
from sharebroker_server.share_coordinator.store.codec import ShareRecordCodec
from sharebroker_server.share_coordinator.store.kafka_format import kafka_record
from sharebroker_server.stream_log.port import StreamLog

if TYPE_CHECKING:
    from sharebroker_protocol.tracing.tracer import Tracer

Host = ShardHost[c.Command, ShareRecord, c.Reply]
Fields = Callable[[Any], dict[str, Any]]
"""Returns the fields of a partition's result for the reply to its command."""

_KEY_CACHE_SIZE = 65_536


def make_host(log: StreamLog, config: ShareCoordinatorConfig) -> Host:
    """Returns the share coordinator's shards; start the host with the process's lease holder."""
    return ShardHost(
        "share-coordinator",
        config.shards,
        log,
        lambda _: ShareCoordinatorMachine(config.rules),
        ShareRecordCodec(),
        config.runtime,
    )


def _no_fields(_: object) -> dict[str, Any]:
    return {}


class ShareCoordinator(ShareCoordinatorServiceServicer):
    """Kafka's share coordinator RPCs.

    `partition_exists(topic_id, partition)` looks a partition up in the metadata cache; `stream_of(resource)`
    returns the name of a shard's stream, for inspection. `leases` bound the leader epoch of reads.
    """

    def __init__(
        self,
        host: Host,
        leases: LeaseStore,
        partition_exists: Callable[[str, int], bool],
        stream_of: Callable[[str], str],
    ) -> None:
        self._host = host
        self._leases = leases
        self._partition_exists = partition_exists
        self._stream_of = stream_of

        @lru_cache(_KEY_CACHE_SIZE)
        def route(group_id: str, topic_id: str, partition: int) -> tuple[SharePartitionKey, int]:
            key = c.make_key(group_id, topic_id, partition)
            return key, shard_of(str(key), host.shards or 1)

        self._route = route

    def write(self, key: SharePartitionKey, change: StateWrite) -> asyncio.Future[c.Reply]:
        """Starts a state write of a leader in this process (see `LocalStates` in persister.port)."""
        return self._submit(*key, lambda own: c.Write(own, *change))

    def write_all(self, shard: int, changes: Changes) -> Begun:
        """Starts state writes of leaders in this process to one shard; an invalid key rejects all."""
        commands = [c.Write(self._existing(*key)[0], *change) for key, change in changes]
        return self._host.shard(shard).submit_all(commands)

    async def InitializeShareGroupState(
        self, request: pb.InitializeShareGroupStateRequest, _context: Any
    ) -> pb.InitializeShareGroupStateResponse:
        """Kafka: InitializeShareGroupState (83)."""
        results = await self._each(request, lambda key, p: INITIALIZE.value(p, key=key), pb.TopicResult)
        return pb.InitializeShareGroupStateResponse(results=results)

    async def ReadShareGroupState(
        self, request: pb.ReadShareGroupStateRequest, _context: Any
    ) -> pb.ReadShareGroupStateResponse:
        """Kafka: ReadShareGroupState (84)."""
        shape = pb.ReadShareGroupStateResponse.TopicData
        results = await self._each(
            request, lambda key, p: c.Read(key, p.leader_epoch), shape, READ_REPLY.fields
        )
        return pb.ReadShareGroupStateResponse(results=results)

    async def WriteShareGroupState(
        self, request: pb.WriteShareGroupStateRequest, _context: Any
    ) -> pb.WriteShareGroupStateResponse:
        """Kafka: WriteShareGroupState (85)."""
        results = await self._each(request, lambda key, p: WRITE.value(p, key=key), pb.TopicResult)
        return pb.WriteShareGroupStateResponse(results=results)

    async def DeleteShareGroupState(
        self, request: pb.DeleteShareGroupStateRequest, _context: Any
    ) -> pb.DeleteShareGroupStateResponse:
        """Kafka: DeleteShareGroupState (86)."""
        epoch = request.state_epoch if request.HasField("state_epoch") else None
        results = await self._each(request, lambda key, _: c.Delete(key, epoch), pb.TopicResult)
        return pb.DeleteShareGroupStateResponse(results=results)

    async def ReadShareGroupStateSummary(
        self, request: pb.ReadShareGroupStateSummaryRequest, _context: Any
    ) -> pb.ReadShareGroupStateSummaryResponse:
        """Kafka: ReadShareGroupStateSummary (87)."""
        shape = pb.ReadShareGroupStateSummaryResponse.TopicData
        results = await self._each(request, lambda key, _: c.Summarize(key), shape, SUMMARY.fields)
        return pb.ReadShareGroupStateSummaryResponse(results=results)

    async def InspectShareGroupState(
        self, request: pb.InspectShareGroupStateRequest, _context: Any
    ) -> pb.InspectShareGroupStateResponse:
        """Compares the state in the log with the state in memory; reports errors as RPC status."""
        key, index = self._route(request.group_id, request.topic_id, request.partition)
        shard = self._host.shard(index)
        response = await inspect(shard, key)
        response.shard = index
        response.stream = self._stream_of(shard.shard)
        return response

    async def DeleteTopicState(
        self, request: pb.DeleteTopicStateRequest, _context: Any
    ) -> pb.DeleteTopicStateResponse:
        """Removes a deleted topic from every shard held here; raises if a shard is unavailable: retry."""
        command = c.DeleteTopicState(request.topic_id)
        shards = self._host.indices()
        futures = [self._host.shard(index).submit(command) for index in shards]
        removed = await asyncio.gather(*futures)
        return pb.DeleteTopicStateResponse(
            removed=sum(n for n in removed if isinstance(n, int)), shards=shards
        )

    async def FetchShareGroupState(
        self, request: pb.FetchShareGroupStateRequest, _context: Any
    ) -> pb.FetchShareGroupStateResponse:
        """Returns records of a shard's log in Kafka's format; raises OFFSET_OUT_OF_RANGE and others."""
        return await fetch(self._host, kafka_record, request)

    async def FindShareGroupStateOffset(
        self, request: pb.FindShareGroupStateOffsetRequest, _context: Any
    ) -> pb.FindShareGroupStateOffsetResponse:
        """Returns the offset of a shard's log for a timestamp; reports errors as RPC status."""
        return await find_offset(self._host, kafka_record, request)

    async def _each(
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
        request, shard = command(key), self._host.shard(index)
        if isinstance(request, c.Read):
            return asyncio.ensure_future(read_within_lease(shard, self._leases, request))
        written = shard.submit(request)
        if tracing.on is not None and isinstance(request, c.Write):
            trace_write(tracing.on, written, request)
        return written

    def _existing(self, group_id: str, topic_id: str, partition: int) -> tuple[SharePartitionKey, int]:
        """Returns the key of an existing partition and its shard."""
        key, index = self._route(group_id, topic_id, partition)
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


def trace_write(tracer: Tracer, written: asyncio.Future[Any], write: c.Write) -> None:
    """Records a span from the request to the append, if the request belongs to a sampled trace."""
    parent = tracer.current()
    if parent is None:
        return
    attributes: dict[str, str | int] = {
        names.SYSTEM: names.SHAREBROKER,
        names.OPERATION: "append state",
        names.GROUP: write.key.group_id,
        names.PARTITION: str(write.key.partition),
        "messaging.sharebroker.start_offset": write.start_offset,
        "messaging.sharebroker.leader_epoch": write.leader_epoch,
    }
    span = tracer.inner("append state", parent, attributes)
    if span is None:
        return

    def ended(future: asyncio.Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        tracer.end(span, error if isinstance(error, KafkaError) else None)

    written.add_done_callback(ended)
