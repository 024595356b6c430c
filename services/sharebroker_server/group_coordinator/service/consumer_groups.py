"""RPCs of consumer groups: membership with deferred replies, and offsets, also in transactions."""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar
from uuid import uuid4

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
    GroupCoordinatorServiceServicer,
)
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.coordinator_runtime.host import expected
from sharebroker_server.group_coordinator.core.consumer_groups import commands as c
from sharebroker_server.group_coordinator.service.consumer_group_messages import (
    COMPLETE,
    DESCRIPTION,
    JOIN,
    JOINED,
    LEAVER,
    MEMBER,
    SYNC,
    SYNCED,
    OffsetResponses,
    code_of,
    commit_response,
    offsets_of,
)
from sharebroker_server.group_coordinator.service.deferred_replies import DeferredReplies
from sharebroker_server.group_coordinator.service.shards import Host
from sharebroker_server.group_coordinator.service.transaction_offsets import TransactionOffsets
from sharebroker_server.routing.transaction_check import ADDING, Claim, TransactionCheck

_CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks whether a deferred reply can still arrive."""

T = TypeVar("T", c.Joined, c.Synced)


class ConsumerGroupRpcs(GroupCoordinatorServiceServicer):
    """The part of the service that is about consumer groups."""

    def __init__(self, host: Host, check: TransactionCheck) -> None:
        self._host = host
        self._deferred = DeferredReplies()
        self._offsets = OffsetResponses()
        self._in_transactions = TransactionOffsets(host, check)

    async def JoinGroup(self, request: pb.JoinGroupRequest, _context: Any) -> pb.JoinGroupResponse:
        """Kafka: JoinGroup (11)."""
        instance_id = request.group_instance_id if request.HasField("group_instance_id") else None
        fresh_id = f"{instance_id or request.client_id}-{uuid4()}"
        reply_id, deferred = self._deferred.expect()
        command = JOIN.value(request, fresh_id=fresh_id, reply_id=reply_id)
        return JOINED.message(await self._reply(request.group_id, command, deferred, c.Joined))

    async def SyncGroup(self, request: pb.SyncGroupRequest, _context: Any) -> pb.SyncGroupResponse:
        """Kafka: SyncGroup (14)."""
        reply_id, deferred = self._deferred.expect()
        command = SYNC.value(request, member=MEMBER.value(request), reply_id=reply_id)
        return SYNCED.message(await self._reply(request.group_id, command, deferred, c.Synced))

    async def Heartbeat(self, request: pb.HeartbeatRequest, _context: Any) -> pb.HeartbeatResponse:
        """Kafka: Heartbeat (12)."""
        await self._host.of(request.group_id).submit(c.ConsumerHeartbeat(MEMBER.value(request)))
        return pb.HeartbeatResponse()

    async def LeaveGroup(self, request: pb.LeaveGroupRequest, _context: Any) -> pb.LeaveGroupResponse:
        """Kafka: LeaveGroup (13)."""
        leavers = tuple(map(LEAVER.value, request.members))
        errors = await self._host.request(request.group_id, c.Leave(request.group_id, leavers), tuple)
        response = pb.LeaveGroupResponse()
        for leaver, error in zip(leavers, errors, strict=True):
            response.members.add(**LEAVER.fields(leaver), error_code=code_of(error))
        return response

    async def OffsetCommit(self, request: pb.OffsetCommitRequest, _context: Any) -> pb.OffsetCommitResponse:
        """Kafka: OffsetCommit (8)."""
        command = c.CommitOffsets(MEMBER.value(request), offsets_of(request))
        rejected = await self._host.request(request.group_id, command, dict)
        return commit_response(command.offsets, rejected)

    async def TxnOffsetCommit(
        self, request: pb.TxnOffsetCommitRequest, _context: Any
    ) -> pb.OffsetCommitResponse:
        """Kafka: TxnOffsetCommit (28)."""
        member, offsets = MEMBER.value(request.commit), offsets_of(request.commit)
        command = c.CommitInTransaction(member, request.producer_id, request.producer_epoch, offsets)
        claim = Claim(request.transactional_id, adds=request.transaction_version >= ADDING)
        return commit_response(offsets, await self._in_transactions.commit(command, claim))

    async def CompleteTransaction(
        self, request: pb.CompleteTransactionRequest, _context: Any
    ) -> pb.CompleteTransactionResponse:
        """Kafka: WriteTxnMarkers (27), a partition of __consumer_offsets."""
        await self._in_transactions.complete(COMPLETE.value(request), request.shard)
        return pb.CompleteTransactionResponse()

    async def OffsetFetch(self, request: pb.OffsetFetchRequest, _context: Any) -> pb.OffsetFetchResponse:
        """Kafka: OffsetFetch (9)."""
        command = c.FetchOffsets(request.group_id)
        offsets = await self._host.request(request.group_id, command, c.GroupOffsets)
        return await self._offsets.response(offsets, require_stable=request.require_stable)

    async def OffsetDelete(self, request: pb.OffsetDeleteRequest, _context: Any) -> pb.OffsetDeleteResponse:
        """Kafka: OffsetDelete (47)."""
        partitions = frozenset(TopicIdPartition(part.topic_id, part.partition) for part in request.partitions)
        await self._host.of(request.group_id).submit(c.ForgetOffsets(request.group_id, partitions))
        return pb.OffsetDeleteResponse()

    async def ConsumerGroupDescribe(
        self, request: pb.ConsumerGroupDescribeRequest, _context: Any
    ) -> pb.ConsumerGroupDescribeResponse:
        """Kafka: DescribeGroups (15), one group."""
        command = c.DescribeConsumers(request.group_id)
        return DESCRIPTION.message(
            await self._host.request(request.group_id, command, c.ConsumersDescription)
        )

    async def _reply(
        self,
        group_id: str,
        command: c.Join | c.Sync,
        deferred: asyncio.Future[c.DeferredResult],
        kind: type[T],
    ) -> T:
        """Returns the reply, immediate or deferred.

        Raises NOT_COORDINATOR if the shard lost the group's members.
        """
        try:
            generation = self._host.of(group_id).load_generation
            reply = await self._host.of(group_id).submit(command)
            if isinstance(reply, kind):
                return reply
            while not (await asyncio.wait((deferred,), timeout=_CHECK_INTERVAL))[0]:
                if self._host.of(group_id).load_generation != generation:
                    raise KafkaError(ErrorCode.NOT_COORDINATOR)
            return expected(deferred.result(), kind)
        finally:
            self._deferred.forget(command.reply_id)
