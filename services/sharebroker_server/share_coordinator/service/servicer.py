"""The share coordinator's RPCs: translates each to commands, one per partition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import (
    ShareCoordinatorServiceServicer,
)
from sharebroker_server.aio import Turns
from sharebroker_server.leases.port import LeaseStore
from sharebroker_server.shard_topic.reading import fetch, find_offset
from sharebroker_server.share_coordinator.core import commands as c
from sharebroker_server.share_coordinator.service.inspection import checkpoint_offsets, inspect
from sharebroker_server.share_coordinator.service.messages import (
    FAILED_REPLY,
    INITIALIZE,
    READ_REPLY,
    SUMMARY,
    WRITE,
)
from sharebroker_server.share_coordinator.service.shards import Host
from sharebroker_server.share_coordinator.service.state_commands import StateCommands
from sharebroker_server.share_coordinator.store.kafka_format import kafka_record

if TYPE_CHECKING:
    from sharebroker_server.share_coordinator.service.partition_states import PartitionStates

SUMMARIES_AT_ONCE: Final = 5
"""Summaries between two turns of the event loop; one of 20,000 runs takes a few milliseconds."""


class ShareCoordinator(ShareCoordinatorServiceServicer):
    """Kafka's share coordinator RPCs.

    `states` are the shards on the logs of partitions that this process leads. `partition_exists(topic_id,
    partition)` looks a partition up in the metadata cache; `stream_of(resource)` returns the name of a
    shard's stream, for inspection. `leases` bound the leader epoch of reads, and have the clock of Redis.
    """

    def __init__(
        self,
        host: Host,
        states: PartitionStates,
        leases: LeaseStore,
        partition_exists: Callable[[str, int], bool],
        stream_of: Callable[[str], str],
    ) -> None:
        self.states = states
        self._host = host
        self._leases = leases
        self._stream_of = stream_of
        self._turns = Turns()
        self._commands = StateCommands(host, states, leases, partition_exists)
        # `LocalStates` of persister.port, for leaders in this process
        self.read = self._commands.read
        self.write = self._commands.write
        self.write_all = self._commands.write_all

    async def InitializeShareGroupState(
        self, request: pb.InitializeShareGroupStateRequest, _context: Any
    ) -> pb.InitializeShareGroupStateResponse:
        """Kafka: InitializeShareGroupState (83)."""
        results = await self._commands.each(
            request, lambda key, p: INITIALIZE.value(p, key=key), pb.TopicResult
        )
        return pb.InitializeShareGroupStateResponse(results=results)

    async def ReadShareGroupState(
        self, request: pb.ReadShareGroupStateRequest, _context: Any
    ) -> pb.ReadShareGroupStateResponse:
        """Kafka: ReadShareGroupState (84)."""
        shape = pb.ReadShareGroupStateResponse.TopicData
        results = await self._commands.each(
            request, lambda key, p: c.Read(key, p.leader_epoch), shape, READ_REPLY.fields
        )
        return pb.ReadShareGroupStateResponse(results=results)

    async def WriteShareGroupState(
        self, request: pb.WriteShareGroupStateRequest, _context: Any
    ) -> pb.WriteShareGroupStateResponse:
        """Kafka: WriteShareGroupState (85)."""
        results = await self._commands.each(request, lambda key, p: WRITE.value(p, key=key), pb.TopicResult)
        return pb.WriteShareGroupStateResponse(results=results)

    async def DeleteShareGroupState(
        self, request: pb.DeleteShareGroupStateRequest, _context: Any
    ) -> pb.DeleteShareGroupStateResponse:
        """Kafka: DeleteShareGroupState (86)."""
        epoch = request.state_epoch if request.HasField("state_epoch") else None
        results = await self._commands.each(request, lambda key, _: c.Delete(key, epoch), pb.TopicResult)
        return pb.DeleteShareGroupStateResponse(results=results)

    async def ReadShareGroupStateSummary(
        self, request: pb.ReadShareGroupStateSummaryRequest, _context: Any
    ) -> pb.ReadShareGroupStateSummaryResponse:
        """Kafka: ReadShareGroupStateSummary (87). In portions: each summary counts the runs of a state."""
        shape = pb.ReadShareGroupStateSummaryResponse.TopicData
        skew, response = self._leases.clock_skew, pb.ReadShareGroupStateSummaryResponse()
        for topic in request.topics if request.group_id else ():
            found = response.results.add(topic_id=topic.topic_id)
            async for portion in self._turns.portions(topic.partitions, SUMMARIES_AT_ONCE):
                part = pb.ReadShareGroupStateSummaryRequest(group_id=request.group_id)
                part.topics.add(topic_id=topic.topic_id, partitions=portion)
                (done,) = await self._commands.each(
                    part, lambda key, _: c.Summarize(key, skew), shape, SUMMARY.fields
                )
                found.partitions.extend(done.partitions)
        return response

    async def ReadFailedRecords(
        self, request: pb.ReadFailedRecordsRequest, _context: Any
    ) -> pb.ReadFailedRecordsResponse:
        """Returns the journals of failed records."""
        shape = pb.ReadFailedRecordsResponse.TopicData
        results = await self._commands.each(
            request, lambda key, _: c.ReadFailed(key), shape, FAILED_REPLY.fields
        )
        return pb.ReadFailedRecordsResponse(results=results)

    async def InspectShareGroupState(
        self, request: pb.InspectShareGroupStateRequest, _context: Any
    ) -> pb.InspectShareGroupStateResponse:
        """Compares the state in the log with the state in memory; reports errors as RPC status."""
        key, index = self._commands.route(request.group_id, request.topic_id, request.partition)
        if self.states.has_topic(key.topic_id):
            shard = await self.states.claimed(key.topic_id, key.partition)
            response = await inspect(shard, key, partial(self.states.stored, key))
            response.MergeFrom(checkpoint_offsets(self.states.index(shard.shard), key.group_id))
        else:
            shard = self._host.shard(index)
            response = await inspect(shard, key)
            response.shard = index
        response.stream = self._stream_of(shard.shard)
        return response

    async def DeleteTopicState(
        self, request: pb.DeleteTopicStateRequest, _context: Any
    ) -> pb.DeleteTopicStateResponse:
        """Removes a deleted topic from every shard held here; raises if a shard is unavailable: retry."""
        removed, shards = await self._commands.delete_topic(request.topic_id)
        return pb.DeleteTopicStateResponse(removed=removed, shards=shards)

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
