"""Consumer groups as RPCs: messages to commands, and those who wait kept waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from uuid import uuid4

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.cluster.transaction_check import ADDING, Claim, TransactionCheck
from sharebroker_server.group_coordinator.core.consumers.commands import (
    Answered,
    CommitInTransaction,
    CommitOffsets,
    Committed,
    CompleteTransaction,
    ConsumersDescription,
    DescribeConsumers,
    FetchOffsets,
    ForgetOffsets,
    Join,
    Joined,
    KeptOffsets,
    Leave,
    Leaver,
    ListConsumers,
    MemberOf,
    StayMember,
    Sync,
    Synced,
)
from sharebroker_server.group_coordinator.service.deferred_replies import Answers
from sharebroker_server.group_coordinator.service.shards import Shards
from sharebroker_server.group_coordinator.service.transaction_offsets import TransactionOffsets
from sharebroker_server.rpc.partition_errors import wire

_GLANCE: Final = 1.0
"""Seconds after which who waits looks whether the group is still coordinated here."""

_NOTHING: Final = Committed(-1)

T = TypeVar("T", Joined, Synced)


class Consumers:
    """Every method raises KafkaError."""

    def __init__(self, shards: Shards, answers: Answers, check: TransactionCheck) -> None:
        self._shards = shards
        self._answers = answers
        self._in_transactions = TransactionOffsets(shards, check)

    async def join(self, request: pb.JoinGroupRequest) -> pb.JoinGroupResponse:
        """Kafka: JoinGroup (11)."""
        joined = await self._answered(request.group_id, lambda ticket: _join(request, ticket), Joined)
        return pb.JoinGroupResponse(
            generation_id=joined.generation,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol,
            leader=joined.leader,
            member_id=joined.member_id,
            members=[
                pb.JoinGroupResponse.Member(
                    member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata
                )
                for one in joined.members
            ],
        )

    async def sync(self, request: pb.SyncGroupRequest) -> pb.SyncGroupResponse:
        """Kafka: SyncGroup (14)."""
        synced = await self._answered(request.group_id, lambda ticket: _sync(request, ticket), Synced)
        return pb.SyncGroupResponse(
            protocol_type=synced.protocol_type, protocol_name=synced.protocol, assignment=synced.assignment
        )

    async def stay(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        """Kafka: Heartbeat (12)."""
        await self._shards.tell(StayMember(_member(request)), request.group_id)
        return pb.HeartbeatResponse()

    async def leave(self, request: pb.LeaveGroupRequest) -> pb.LeaveGroupResponse:
        """Kafka: LeaveGroup (13)."""
        leavers = tuple(Leaver(one.member_id, _instance(one)) for one in request.members)
        outcomes = await self._shards.ask(Leave(request.group_id, leavers), request.group_id, tuple)
        return pb.LeaveGroupResponse(
            members=[
                pb.LeaveGroupResponse.Member(
                    member_id=one.member_id,
                    group_instance_id=one.instance_id,
                    error_code=wire(error.code if error else ErrorCode.NONE),
                )
                for one, error in zip(leavers, outcomes, strict=True)
            ]
        )

    async def commit(self, request: pb.OffsetCommitRequest) -> pb.OffsetCommitResponse:
        """Kafka: OffsetCommit (8)."""
        offsets = _offsets(request)
        refused = await self._shards.ask(CommitOffsets(_member(request), offsets), request.group_id, dict)
        return _kept(offsets, refused)

    async def commit_in_transaction(self, request: pb.TxnOffsetCommitRequest) -> pb.OffsetCommitResponse:
        """Kafka: TxnOffsetCommit (28)."""
        command = CommitInTransaction(
            _member(request.commit), request.producer_id, request.producer_epoch, _offsets(request.commit)
        )
        claim = Claim(request.transactional_id, adds=request.transaction_version >= ADDING)
        return _kept(command.offsets, await self._in_transactions.commit(command, claim))

    async def complete(self, request: pb.CompleteTransactionRequest) -> pb.CompleteTransactionResponse:
        """Kafka: WriteTxnMarkers (27), a partition of __consumer_offsets."""
        command = CompleteTransaction(
            request.producer_id, request.producer_epoch, request.coordinator_epoch, request.transaction_result
        )
        await self._in_transactions.complete(command, request.shard)
        return pb.CompleteTransactionResponse()

    async def fetch(self, request: pb.OffsetFetchRequest) -> pb.OffsetFetchResponse:
        """Kafka: OffsetFetch (9)."""
        kept = await self._shards.ask(FetchOffsets(request.group_id), request.group_id, KeptOffsets)
        unstable = kept.unstable if request.require_stable else frozenset[TopicIdPartition]()
        return pb.OffsetFetchResponse(
            partitions=[
                _fetched(some, kept.committed.get(some), unstable=some in unstable)
                for some in sorted(unstable.union(kept.committed))
            ]
        )

    async def forget(self, request: pb.OffsetDeleteRequest) -> pb.OffsetDeleteResponse:
        """Kafka: OffsetDelete (47)."""
        partitions = frozenset(TopicIdPartition(one.topic_id, one.partition) for one in request.partitions)
        await self._shards.tell(ForgetOffsets(request.group_id, partitions), request.group_id)
        return pb.OffsetDeleteResponse()

    async def describe(self, group_id: str) -> pb.ConsumerGroupDescribeResponse:
        """Kafka: DescribeGroups (15), one group."""
        group = await self._shards.ask(DescribeConsumers(group_id), group_id, ConsumersDescription)
        return pb.ConsumerGroupDescribeResponse(
            group_state=group.state,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            members=[
                pb.ConsumerGroupDescribeResponse.Member(
                    member_id=one.member_id,
                    group_instance_id=one.instance_id,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    metadata=one.metadata,
                    assignment=one.assignment,
                )
                for one in group.members
            ],
        )

    async def list(self) -> dict[str, tuple[str, str]]:
        """State and protocol type of every consumer group here, by group id."""
        found, _ = await self._shards.list(ListConsumers())
        return found

    async def _answered(self, group_id: str, command: Callable[[int], Join | Sync], kind: type[T]) -> T:
        """What comes, now or later. Raises NOT_COORDINATOR where the group's members are forgotten."""
        ticket, coming = self._answers.expect()
        try:
            memory = self._shards.memory(group_id)
            reply = await self._shards.submit(command(ticket), group_id)
            if isinstance(reply, kind):
                return reply
            while not (await asyncio.wait((coming,), timeout=_GLANCE))[0]:
                if self._shards.memory(group_id) != memory:
                    raise KafkaError(ErrorCode.NOT_COORDINATOR)
            return _of_kind(coming.result(), kind)
        finally:
            self._answers.forget(ticket)


def _offsets(request: pb.OffsetCommitRequest) -> dict[TopicIdPartition, Committed]:
    return {
        TopicIdPartition(one.topic_id, one.partition): Committed(
            one.committed_offset, one.committed_leader_epoch, one.metadata
        )
        for one in request.partitions
    }


def _kept(
    offsets: Mapping[TopicIdPartition, Committed], refused: Mapping[TopicIdPartition, KafkaError]
) -> pb.OffsetCommitResponse:
    return pb.OffsetCommitResponse(
        partitions=[
            pb.OffsetCommitResponse.Partition(
                topic_id=some.topic_id,
                partition=some.partition,
                error_code=wire(refused[some].code if some in refused else ErrorCode.NONE),
            )
            for some in offsets
        ]
    )


def _fetched(
    some: TopicIdPartition, committed: Committed | None, *, unstable: bool
) -> pb.OffsetFetchResponse.Partition:
    committed = committed or _NOTHING
    return pb.OffsetFetchResponse.Partition(
        topic_id=some.topic_id,
        partition=some.partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=wire(ErrorCode.UNSTABLE_OFFSET_COMMIT if unstable else ErrorCode.NONE),
    )


def _of_kind(answer: Answered, kind: type[T]) -> T:
    if not isinstance(answer, kind):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"A member was answered with {answer!r}.")
    return answer


def _join(request: pb.JoinGroupRequest, ticket: int) -> Join:
    instance_id = _instance(request)
    return Join(
        group_id=request.group_id,
        member_id=request.member_id,
        fresh_id=f"{instance_id or request.client_id}-{uuid4()}",
        session_timeout=request.session_timeout_ms / 1000,
        rebalance_timeout=request.rebalance_timeout_ms / 1000,
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, one.metadata) for one in request.protocols),
        ticket=ticket,
        instance_id=instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        must_be_known=request.require_known_member_id,
    )


def _sync(request: pb.SyncGroupRequest, ticket: int) -> Sync:
    return Sync(
        _member(request),
        {one.member_id: one.assignment for one in request.assignments},
        ticket,
        request.protocol_type if request.HasField("protocol_type") else None,
        request.protocol_name if request.HasField("protocol_name") else None,
    )


def _member(request: pb.SyncGroupRequest | pb.HeartbeatRequest | pb.OffsetCommitRequest) -> MemberOf:
    return MemberOf(request.group_id, request.generation_id, request.member_id, _instance(request))


def _instance(message: Any) -> str | None:
    """The instance id of a fixed member."""
    return message.group_instance_id if message.HasField("group_instance_id") else None
