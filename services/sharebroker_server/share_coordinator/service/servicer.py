"""The share coordinator's RPCs: each partition's command goes to its shard, each gets its own result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import (
    ShareCoordinatorServiceServicer,
)
from sharebroker_protocol.tracing import enabled
from sharebroker_server.coordinator_runtime.hashing import shard_of
from sharebroker_server.coordinator_runtime.host import ShardHost
from sharebroker_server.persister.port import Begun, Changes
from sharebroker_server.rpc.partition_errors import refusal
from sharebroker_server.shard_topic.reading import fetch, find_offset
from sharebroker_server.share_coordinator.config import ShareCoordinatorConfig
from sharebroker_server.share_coordinator.core.commands import (
    Command,
    Delete,
    DeleteTopic,
    Initialize,
    Read,
    Reply,
    Summarize,
    Write,
)
from sharebroker_server.share_coordinator.core.key import make_key
from sharebroker_server.share_coordinator.core.machine import ShareCoordinatorMachine
from sharebroker_server.share_coordinator.core.records import ShareRecord
from sharebroker_server.share_coordinator.service.inspection import inspect
from sharebroker_server.share_coordinator.service.messages import batches_in, read_fields, summary_fields
from sharebroker_server.share_coordinator.service.tracing import tell_of_write
from sharebroker_server.share_coordinator.store.codec import ShareRecordCodec
from sharebroker_server.share_coordinator.store.kafka_format import kafka_record
from sharebroker_server.stream_log.port import StreamLog

Host = ShardHost[Command, ShareRecord, Reply]
Fields = Callable[[Any], dict[str, Any]]

_KEYS_REMEMBERED = 65_536


def make_host(log: StreamLog, config: ShareCoordinatorConfig) -> Host:
    """The share coordinator's shards; start it with the process's lease holder."""
    return ShardHost(
        "share-coordinator",
        config.shards,
        log,
        lambda _: ShareCoordinatorMachine(config.rules),
        ShareRecordCodec(),
        config.runtime,
    )


class ShareCoordinator(ShareCoordinatorServiceServicer):
    """Kafka's share coordinator RPCs. `partition_exists(topic_id, partition)` asks the cluster's metadata,
    `stream_of(resource)` names a shard's stream for those who inspect it.
    """

    def __init__(
        self,
        host: Host,
        config: ShareCoordinatorConfig,
        partition_exists: Callable[[str, int], bool],
        stream_of: Callable[[str], str],
    ) -> None:
        self._host = host
        self._timeout = config.write_timeout
        self._partition_exists = partition_exists
        self._stream_of = stream_of

        @lru_cache(_KEYS_REMEMBERED)
        def route(group_id: str, topic_id: str, partition: int) -> tuple[SharePartitionKey, int]:
            key = make_key(group_id, topic_id, partition)
            return key, shard_of(str(key), config.shards)

        self._route = route

    def write(self, key: SharePartitionKey, change: StateWrite) -> asyncio.Future[Reply]:
        """A leader's write from this very process (sharebroker_server.persister.port.LocalStates)."""
        return self._submit(*key, lambda own: Write(own, *change))

    def write_all(self, shard: int, changes: Changes) -> Begun:
        """Leaders' writes to a shard, as above; one that cannot be asked for refuses all."""
        commands = [Write(self._existing(*key)[0], *change) for key, change in changes]
        return self._host.shard(shard).submit_all(commands, timeout=self._timeout)

    async def InitializeShareGroupState(
        self, request: pb.InitializeShareGroupStateRequest, _context: Any
    ) -> pb.InitializeShareGroupStateResponse:
        """Kafka: InitializeShareGroupState (83)."""
        results = await self._each(
            request,
            lambda key, p: Initialize(
                key, p.state_epoch, p.start_offset, p.keep_existing, p.start_has_epoch, p.since_epoch
            ),
            pb.TopicResult,
            _nothing,
        )
        return pb.InitializeShareGroupStateResponse(results=results)

    async def ReadShareGroupState(
        self, request: pb.ReadShareGroupStateRequest, _context: Any
    ) -> pb.ReadShareGroupStateResponse:
        """Kafka: ReadShareGroupState (84)."""
        shape = pb.ReadShareGroupStateResponse.TopicData
        results = await self._each(request, lambda key, p: Read(key, p.leader_epoch), shape, read_fields)
        return pb.ReadShareGroupStateResponse(results=results)

    async def WriteShareGroupState(
        self, request: pb.WriteShareGroupStateRequest, _context: Any
    ) -> pb.WriteShareGroupStateResponse:
        """Kafka: WriteShareGroupState (85)."""
        results = await self._each(request, _write, pb.TopicResult, _nothing)
        return pb.WriteShareGroupStateResponse(results=results)

    async def DeleteShareGroupState(
        self, request: pb.DeleteShareGroupStateRequest, _context: Any
    ) -> pb.DeleteShareGroupStateResponse:
        """Kafka: DeleteShareGroupState (86)."""
        epoch = request.state_epoch if request.HasField("state_epoch") else None
        results = await self._each(request, lambda key, _: Delete(key, epoch), pb.TopicResult, _nothing)
        return pb.DeleteShareGroupStateResponse(results=results)

    async def ReadShareGroupStateSummary(
        self, request: pb.ReadShareGroupStateSummaryRequest, _context: Any
    ) -> pb.ReadShareGroupStateSummaryResponse:
        """Kafka: ReadShareGroupStateSummary (87)."""
        shape = pb.ReadShareGroupStateSummaryResponse.TopicData
        results = await self._each(request, lambda key, _: Summarize(key), shape, summary_fields)
        return pb.ReadShareGroupStateSummaryResponse(results=results)

    async def InspectShareGroupState(
        self, request: pb.InspectShareGroupStateRequest, _context: Any
    ) -> pb.InspectShareGroupStateResponse:
        """What lies in the log beside what is in memory; raises as the others refuse in band."""
        key, index = self._route(request.group_id, request.topic_id, request.partition)
        shard = self._host.shard(index)
        response = await inspect(shard, key, self._timeout)
        response.shard = index
        response.stream = self._stream_of(shard.shard)
        return response

    async def DeleteTopicState(
        self, request: pb.DeleteTopicStateRequest, _context: Any
    ) -> pb.DeleteTopicStateResponse:
        """Removes a deleted topic from every shard held here; raises if one cannot yet: ask again."""
        command = DeleteTopic(request.topic_id)
        shards = self._host.indices()
        futures = [self._host.shard(index).submit(command, timeout=self._timeout) for index in shards]
        removed = await asyncio.gather(*futures)
        return pb.DeleteTopicStateResponse(
            removed=sum(n for n in removed if isinstance(n, int)), shards=shards
        )

    async def FetchShareGroupState(
        self, request: pb.FetchShareGroupStateRequest, _context: Any
    ) -> pb.FetchShareGroupStateResponse:
        """Records of a shard's log in Kafka's form; raises, among others, OFFSET_OUT_OF_RANGE."""
        return await fetch(self._host, kafka_record, request)

    async def FindShareGroupStateOffset(
        self, request: pb.FindShareGroupStateOffsetRequest, _context: Any
    ) -> pb.FindShareGroupStateOffsetResponse:
        """An offset of a shard's log by time; raises as the others refuse in band."""
        return await find_offset(self._host, kafka_record, request)

    async def _each(
        self, request: Any, command: Callable[[SharePartitionKey, Any], Command], shape: Any, fields: Fields
    ) -> Iterable[Any]:
        """One result a partition, in the order asked; all are under way before the first is waited for."""
        if not request.group_id:
            return []
        asked = [
            (
                topic.topic_id,
                [self._ask(request.group_id, topic.topic_id, p, command) for p in topic.partitions],
            )
            for topic in request.topics
        ]
        return [
            shape(topic_id=topic_id, partitions=[await _result(*one, fields) for one in partitions])
            for topic_id, partitions in asked
        ]

    def _ask(
        self, group_id: str, topic_id: str, asked: Any, command: Callable[[SharePartitionKey, Any], Command]
    ) -> tuple[int, asyncio.Future[Reply] | KafkaError]:
        partition: int = asked if isinstance(asked, int) else asked.partition
        try:
            made = self._submit(group_id, topic_id, partition, lambda key: command(key, asked))
        except KafkaError as error:
            return partition, error
        return partition, made

    def _submit(
        self, group_id: str, topic_id: str, partition: int, command: Callable[[SharePartitionKey], Command]
    ) -> asyncio.Future[Reply]:
        key, index = self._existing(group_id, topic_id, partition)
        asked = command(key)
        made = self._host.shard(index).submit(asked, timeout=self._timeout)
        if enabled.on is not None and isinstance(asked, Write):
            tell_of_write(enabled.on, made, asked)
        return made

    def _existing(self, group_id: str, topic_id: str, partition: int) -> tuple[SharePartitionKey, int]:
        """The key of a partition that there is, and its shard."""
        key, index = self._route(group_id, topic_id, partition)
        if not self._partition_exists(topic_id, partition):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, metadata={"key": str(key)})
        return key, index


async def _result(
    partition: int, outcome: asyncio.Future[Reply] | KafkaError, fields: Fields
) -> dict[str, Any]:
    try:
        if isinstance(outcome, KafkaError):
            raise outcome
        return {"partition": partition, **fields(await outcome)}
    except KafkaError as error:
        return {"partition": partition, **refusal(error)}


def _write(key: SharePartitionKey, asked: pb.WriteShareGroupStateRequest.PartitionData) -> Write:
    return Write(
        key,
        asked.state_epoch,
        asked.leader_epoch,
        asked.start_offset,
        asked.delivery_complete_count,
        batches_in(asked.state_batches),
    )


def _nothing(_: object) -> dict[str, Any]:
    return {}
