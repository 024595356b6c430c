"""RPCs of consumer groups: converts messages to commands, and waits for deferred replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from uuid import uuid4

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    CommitInTransaction,
    CommitOffsets,
    Committed,
    CompleteTransaction,
    ConsumerHeartbeat,
    ConsumersDescription,
    DeferredResult,
    DescribeConsumers,
    FetchOffsets,
    ForgetOffsets,
    GroupOffsets,
    Join,
    Joined,
    Leave,
    Leaver,
    ListConsumers,
    MemberIdentity,
    Sync,
    Synced,
)
from sharebroker_server.group_coordinator.service.consumer_groups.deferred_replies import DeferredReplies
from sharebroker_server.group_coordinator.service.consumer_groups.transaction_offsets import (
    TransactionOffsets,
)
from sharebroker_server.group_coordinator.service.shards import Shards
from sharebroker_server.routing.transaction_check import ADDING, Claim, TransactionCheck
from sharebroker_server.rpc.errors import wire

_CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks whether a deferred reply can still arrive."""

_NO_OFFSET: Final = Committed(-1)

T = TypeVar("T", Joined, Synced)


class ConsumerGroupRpcs:
    """Every method raises KafkaError."""

    def __init__(self, shards: Shards, deferred: DeferredReplies, check: TransactionCheck) -> None:
        self._shards = shards
        self._deferred = deferred
        self._in_transactions = TransactionOffsets(shards, check)

    async def join(self, request: pb.JoinGroupRequest) -> pb.JoinGroupResponse:
        """Kafka: JoinGroup (11)."""
        joined = await self._reply(request.group_id, lambda reply_id: _join(request, reply_id), Joined)
        return pb.JoinGroupResponse(
            generation_id=joined.generation,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol,
            leader=joined.leader,
            member_id=joined.member_id,
            members=[
                pb.JoinGroupResponse.Member(
                    member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
                )
                for member in joined.members
            ],
        )

    async def sync(self, request: pb.SyncGroupRequest) -> pb.SyncGroupResponse:
        """Kafka: SyncGroup (14)."""
        synced = await self._reply(request.group_id, lambda reply_id: _sync(request, reply_id), Synced)
        return pb.SyncGroupResponse(
            protocol_type=synced.protocol_type, protocol_name=synced.protocol, assignment=synced.assignment
        )

    async def heartbeat(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        """Kafka: Heartbeat (12)."""
        await self._shards.send(ConsumerHeartbeat(_member(request)), request.group_id)
        return pb.HeartbeatResponse()

    async def leave(self, request: pb.LeaveGroupRequest) -> pb.LeaveGroupResponse:
        """Kafka: LeaveGroup (13)."""
        leavers = tuple(Leaver(member.member_id, _instance(member)) for member in request.members)
        outcomes = await self._shards.request(Leave(request.group_id, leavers), request.group_id, tuple)
        return pb.LeaveGroupResponse(
            members=[
                pb.LeaveGroupResponse.Member(
                    member_id=leaver.member_id,
                    group_instance_id=leaver.instance_id,
                    error_code=wire(error.code if error else ErrorCode.NONE),
                )
                for leaver, error in zip(leavers, outcomes, strict=True)
            ]
        )

    async def commit(self, request: pb.OffsetCommitRequest) -> pb.OffsetCommitResponse:
        """Kafka: OffsetCommit (8)."""
        offsets = _offsets(request)
        rejected = await self._shards.request(
            CommitOffsets(_member(request), offsets), request.group_id, dict
        )
        return _commit_response(offsets, rejected)

    async def commit_in_transaction(self, request: pb.TxnOffsetCommitRequest) -> pb.OffsetCommitResponse:
        """Kafka: TxnOffsetCommit (28)."""
        command = CommitInTransaction(
            _member(request.commit), request.producer_id, request.producer_epoch, _offsets(request.commit)
        )
        claim = Claim(request.transactional_id, adds=request.transaction_version >= ADDING)
        return _commit_response(command.offsets, await self._in_transactions.commit(command, claim))

    async def complete(self, request: pb.CompleteTransactionRequest) -> pb.CompleteTransactionResponse:
        """Kafka: WriteTxnMarkers (27), a partition of __consumer_offsets."""
        command = CompleteTransaction(
            request.producer_id, request.producer_epoch, request.coordinator_epoch, request.transaction_result
        )
        await self._in_transactions.complete(command, request.shard)
        return pb.CompleteTransactionResponse()

    async def fetch(self, request: pb.OffsetFetchRequest) -> pb.OffsetFetchResponse:
        """Kafka: OffsetFetch (9)."""
        offsets = await self._shards.request(FetchOffsets(request.group_id), request.group_id, GroupOffsets)
        unstable = offsets.unstable if request.require_stable else frozenset[TopicIdPartition]()
        return pb.OffsetFetchResponse(
            partitions=[
                _fetched(key, offsets.committed.get(key), unstable=key in unstable)
                for key in sorted(unstable.union(offsets.committed))
            ]
        )

    async def forget(self, request: pb.OffsetDeleteRequest) -> pb.OffsetDeleteResponse:
        """Kafka: OffsetDelete (47)."""
        partitions = frozenset(
            TopicIdPartition(member.topic_id, member.partition) for member in request.partitions
        )
        await self._shards.send(ForgetOffsets(request.group_id, partitions), request.group_id)
        return pb.OffsetDeleteResponse()

    async def describe(self, group_id: str) -> pb.ConsumerGroupDescribeResponse:
        """Kafka: DescribeGroups (15), one group."""
        group = await self._shards.request(DescribeConsumers(group_id), group_id, ConsumersDescription)
        return pb.ConsumerGroupDescribeResponse(
            group_state=group.state,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            members=[
                pb.ConsumerGroupDescribeResponse.Member(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    metadata=member.metadata,
                    assignment=member.assignment,
                )
                for member in group.members
            ],
        )

    async def list(self) -> dict[str, tuple[str, str]]:
        """Returns state and protocol type of every consumer group in this process, by group id."""
        found, _ = await self._shards.list(ListConsumers())
        return found

    async def _reply(self, group_id: str, command: Callable[[int], Join | Sync], kind: type[T]) -> T:
        """Returns the reply, immediate or deferred.

        Raises NOT_COORDINATOR if the shard lost the group's members.
        """
        reply_id, deferred = self._deferred.expect()
        try:
            generation = self._shards.load_generation(group_id)
            reply = await self._shards.submit(command(reply_id), group_id)
            if isinstance(reply, kind):
                return reply
            while not (await asyncio.wait((deferred,), timeout=_CHECK_INTERVAL))[0]:
                if self._shards.load_generation(group_id) != generation:
                    raise KafkaError(ErrorCode.NOT_COORDINATOR)
            return _of_kind(deferred.result(), kind)
        finally:
            self._deferred.forget(reply_id)


def _offsets(request: pb.OffsetCommitRequest) -> dict[TopicIdPartition, Committed]:
    return {
        TopicIdPartition(member.topic_id, member.partition): Committed(
            member.committed_offset, member.committed_leader_epoch, member.metadata
        )
        for member in request.partitions
    }


def _commit_response(
    offsets: Mapping[TopicIdPartition, Committed], rejected: Mapping[TopicIdPartition, KafkaError]
) -> pb.OffsetCommitResponse:
    return pb.OffsetCommitResponse(
        partitions=[
            pb.OffsetCommitResponse.Partition(
                topic_id=key.topic_id,
                partition=key.partition,
                error_code=wire(rejected[key].code if key in rejected else ErrorCode.NONE),
            )
            for key in offsets
        ]
    )


def _fetched(
    key: TopicIdPartition, committed: Committed | None, *, unstable: bool
) -> pb.OffsetFetchResponse.Partition:
    committed = committed or _NO_OFFSET
    return pb.OffsetFetchResponse.Partition(
        topic_id=key.topic_id,
        partition=key.partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=wire(ErrorCode.UNSTABLE_OFFSET_COMMIT if unstable else ErrorCode.NONE),
    )


def _of_kind(result: DeferredResult, kind: type[T]) -> T:
    if not isinstance(result, kind):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The deferred reply is {result!r}.")
    return result


def _join(request: pb.JoinGroupRequest, reply_id: int) -> Join:
    instance_id = _instance(request)
    return Join(
        group_id=request.group_id,
        member_id=request.member_id,
        fresh_id=f"{instance_id or request.client_id}-{uuid4()}",
        session_timeout=request.session_timeout_ms / 1000,
        rebalance_timeout=request.rebalance_timeout_ms / 1000,
        protocol_type=request.protocol_type,
        protocols=tuple((member.name, member.metadata) for member in request.protocols),
        reply_id=reply_id,
        instance_id=instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        must_be_known=request.require_known_member_id,
    )


def _sync(request: pb.SyncGroupRequest, reply_id: int) -> Sync:
    return Sync(
        _member(request),
        {member.member_id: member.assignment for member in request.assignments},
        reply_id,
        request.protocol_type if request.HasField("protocol_type") else None,
        request.protocol_name if request.HasField("protocol_name") else None,
    )


def _member(request: pb.SyncGroupRequest | pb.HeartbeatRequest | pb.OffsetCommitRequest) -> MemberIdentity:
    return MemberIdentity(request.group_id, request.generation_id, request.member_id, _instance(request))


def _instance(message: Any) -> str | None:
    """Returns the instance id of a static member."""
    return message.group_instance_id if message.HasField("group_instance_id") else None
