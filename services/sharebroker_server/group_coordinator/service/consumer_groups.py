"""RPCs of consumer groups: membership with deferred replies, and offsets, also in transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, TypeVar
from uuid import uuid4

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
    GroupCoordinatorServiceServicer,
)
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.status.v1 import status_pb2
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID
from sharebroker_server.coordinator_runtime.host import expected, shard_of
from sharebroker_server.group_coordinator.core.consumer_groups import commands as c
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import UnverifiedOffsetsError
from sharebroker_server.group_coordinator.service.shards import Host
from sharebroker_server.leases import names
from sharebroker_server.proto_values import Conversion, Mapped
from sharebroker_server.routing.transaction_check import ADDING, Claim, TransactionCheck
from sharebroker_server.rpc.errors import wire

_CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks whether a deferred reply can still arrive."""

T = TypeVar("T", c.Joined, c.Synced)


_TRIES: Final = 3
"""A transaction that ends between confirmation and commit must be confirmed again."""

_Rejected = dict[TopicIdPartition, KafkaError]

_NO_OFFSET: Final = c.Committed(-1)


class ConsumerGroupRpcs(GroupCoordinatorServiceServicer):
    """The part of the service that is about consumer groups."""

    def __init__(self, host: Host, check: TransactionCheck) -> None:
        self._host = host
        self._deferred = DeferredReplies()
        self._in_transactions = TransactionOffsets(host, check)

    async def JoinGroup(self, request: pb.JoinGroupRequest, _context: Any) -> pb.JoinGroupResponse:
        """Kafka: JoinGroup (11)."""
        instance_id = request.group_instance_id if request.HasField("group_instance_id") else None
        fresh_id = f"{instance_id or request.client_id}-{uuid4()}"
        reply_id, deferred = self._deferred.expect()
        command = _JOIN.value(request, fresh_id=fresh_id, reply_id=reply_id)
        return _JOINED.message(await self._reply(request.group_id, command, deferred, c.Joined))

    async def SyncGroup(self, request: pb.SyncGroupRequest, _context: Any) -> pb.SyncGroupResponse:
        """Kafka: SyncGroup (14)."""
        reply_id, deferred = self._deferred.expect()
        command = _SYNC.value(request, member=_MEMBER.value(request), reply_id=reply_id)
        return _SYNCED.message(await self._reply(request.group_id, command, deferred, c.Synced))

    async def Heartbeat(self, request: pb.HeartbeatRequest, _context: Any) -> pb.HeartbeatResponse:
        """Kafka: Heartbeat (12)."""
        await self._host.of(request.group_id).submit(c.ConsumerHeartbeat(_MEMBER.value(request)))
        return pb.HeartbeatResponse()

    async def LeaveGroup(self, request: pb.LeaveGroupRequest, _context: Any) -> pb.LeaveGroupResponse:
        """Kafka: LeaveGroup (13)."""
        leavers = tuple(map(_LEAVER.value, request.members))
        errors = await self._host.request(request.group_id, c.Leave(request.group_id, leavers), tuple)
        response = pb.LeaveGroupResponse()
        for leaver, error in zip(leavers, errors, strict=True):
            response.members.add(**_LEAVER.fields(leaver), error_code=_code(error))
        return response

    async def OffsetCommit(self, request: pb.OffsetCommitRequest, _context: Any) -> pb.OffsetCommitResponse:
        """Kafka: OffsetCommit (8)."""
        command = c.CommitOffsets(_MEMBER.value(request), _offsets(request))
        rejected = await self._host.request(request.group_id, command, dict)
        return _commit_response(command.offsets, rejected)

    async def TxnOffsetCommit(
        self, request: pb.TxnOffsetCommitRequest, _context: Any
    ) -> pb.OffsetCommitResponse:
        """Kafka: TxnOffsetCommit (28)."""
        member, offsets = _MEMBER.value(request.commit), _offsets(request.commit)
        command = c.CommitInTransaction(member, request.producer_id, request.producer_epoch, offsets)
        claim = Claim(request.transactional_id, adds=request.transaction_version >= ADDING)
        return _commit_response(offsets, await self._in_transactions.commit(command, claim))

    async def CompleteTransaction(
        self, request: pb.CompleteTransactionRequest, _context: Any
    ) -> pb.CompleteTransactionResponse:
        """Kafka: WriteTxnMarkers (27), a partition of __consumer_offsets."""
        await self._in_transactions.complete(_COMPLETE.value(request), request.shard)
        return pb.CompleteTransactionResponse()

    async def OffsetFetch(self, request: pb.OffsetFetchRequest, _context: Any) -> pb.OffsetFetchResponse:
        """Kafka: OffsetFetch (9)."""
        offsets = await self._host.request(request.group_id, c.FetchOffsets(request.group_id), c.GroupOffsets)
        unstable = offsets.unstable if request.require_stable else frozenset[TopicIdPartition]()
        response = pb.OffsetFetchResponse()
        for key in sorted(unstable.union(offsets.committed)):
            fields = _OFFSET.fields(offsets.committed.get(key, _NO_OFFSET))
            error = ErrorCode.UNSTABLE_OFFSET_COMMIT if key in unstable else ErrorCode.NONE
            response.partitions.add(**key._asdict(), **fields, error_code=wire(error))
        return response

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
        return _DESCRIPTION.message(
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


def _code(error: KafkaError | None) -> status_pb2.ErrorCode.ValueType:
    return wire(error.code if error else ErrorCode.NONE)


def _offsets(request: pb.OffsetCommitRequest) -> dict[TopicIdPartition, c.Committed]:
    return {
        TopicIdPartition(part.topic_id, part.partition): _OFFSET.value(part) for part in request.partitions
    }


def _commit_response(
    offsets: Mapping[TopicIdPartition, c.Committed], rejected: Mapping[TopicIdPartition, KafkaError]
) -> pb.OffsetCommitResponse:
    response = pb.OffsetCommitResponse()
    for key in offsets:
        response.partitions.add(**key._asdict(), error_code=_code(rejected.get(key)))
    return response


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000


@dataclass(eq=False, slots=True)
class _Confirmation:
    """A confirmation in flight; `ended`: a transaction of the producer has ended in the shard meanwhile."""

    ended: bool = False


class TransactionOffsets:
    """Offsets that producers add to their transactions. Every method raises KafkaError.

    The first offsets of a transaction need the confirmation of its coordinator that it is open.
    """

    def __init__(self, host: Host, check: TransactionCheck) -> None:
        self._host = host
        self._check = check
        self._confirming: dict[tuple[int, int], set[_Confirmation]] = {}

    async def commit(self, command: c.CommitInTransaction, claim: Claim) -> _Rejected:
        """Adds offsets to a confirmed transaction; returns the errors of rejected ones.

        Raises what the command and `TransactionCheck.confirm` do.
        """
        group_id = command.member.group_id
        rejection: KafkaError = KafkaError(ErrorCode.INVALID_TXN_STATE)
        for _ in range(_TRIES):
            try:
                return await self._host.request(group_id, command, dict)
            except UnverifiedOffsetsError as error:
                rejection = error
            command = replace(command, coordinator_epoch=await self._confirmed(command, claim))
        raise rejection

    async def complete(self, command: c.CompleteTransaction, shard: int) -> None:
        """Commits or drops the pending offsets of the transaction in a shard."""
        for confirmation in self._confirming.get((shard, command.producer_id), ()):
            confirmation.ended = True
        await self._host.shard(shard).submit(command)

    async def _confirmed(self, command: c.CommitInTransaction, claim: Claim) -> int | None:
        """Returns the epoch of the transaction's coordinator.

        Returns None if the confirmed transaction may have ended.
        """
        group_id = command.member.group_id
        shard = shard_of(group_id, self._host.shards or 1)
        confirmation, generation = _Confirmation(), self._host.of(group_id).load_generation
        waiting = self._confirming.setdefault((shard, command.producer_id), set())
        waiting.add(confirmation)
        try:
            partition = names.partition(OFFSETS_TOPIC_ID, shard)
            epoch = await self._check.confirm(claim, command.producer_id, command.producer_epoch, partition)
        except KafkaError as error:
            raise _translated(error) from error
        finally:
            waiting.discard(confirmation)
            if not waiting:
                self._confirming.pop((shard, command.producer_id), None)
        # A marker that arrived meanwhile, here or at another owner, is not sent again.
        return None if confirmation.ended or self._host.of(group_id).load_generation != generation else epoch


def _translated(error: KafkaError) -> KafkaError:
    """Returns the error with a code that clients of OffsetCommit accept."""
    if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message, retry_after=error.retry_after)
    return error


class DeferredReplies:
    """The members of consumer groups that wait for other members, by reply id."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[c.DeferredResult]] = {}

    def expect(self) -> tuple[int, asyncio.Future[c.DeferredResult]]:
        """Returns a new reply id and the future of its reply; the caller must `forget` the id in the end."""
        reply_id = next(self._ids)
        self._waiting[reply_id] = asyncio.get_running_loop().create_future()
        return reply_id, self._waiting[reply_id]

    def resolve(self, reply_id: int, result: c.DeferredResult) -> None:
        """Completes the future of a reply; a forgotten id is ignored."""
        waiting = self._waiting.get(reply_id)
        if waiting is None or waiting.done():
            return
        if isinstance(result, KafkaError):
            waiting.set_exception(result)
        else:
            waiting.set_result(result)

    def forget(self, reply_id: int) -> None:
        """Removes a reply id."""
        waiting = self._waiting.pop(reply_id, None)
        if waiting is not None and waiting.done() and not waiting.cancelled():
            waiting.exception()  # marks the error as retrieved: it may have arrived after the caller left


_NAMES: Final[dict[str, Mapped | str]] = {
    "generation": "generation_id",
    "instance_id": "group_instance_id",
    "protocol": "protocol_name",
    "state": "group_state",
}
"""The fields of commands and replies that have another name in messages."""

_MEMBER: Final[Conversion[c.MemberIdentity, Any]] = Conversion(
    c.MemberIdentity,
    pb.HeartbeatRequest,  # and other messages with its fields
    _NAMES,
)
_LEAVER: Final = Conversion(c.Leaver, pb.LeaveGroupRequest.Member, _NAMES)
_JOIN: Final = Conversion(
    c.Join,
    pb.JoinGroupRequest,
    _NAMES
    | {
        "session_timeout": Mapped("session_timeout_ms", decode=_seconds),
        "rebalance_timeout": Mapped("rebalance_timeout_ms", decode=_seconds),
        "protocols": Mapped(decode=lambda protocols: tuple((each.name, each.metadata) for each in protocols)),
        "must_be_known": "require_known_member_id",
    },
)
_JOINED_MEMBER: Final = Conversion(c.JoinedMember, pb.JoinGroupResponse.Member, _NAMES)
_JOINED: Final = Conversion(
    c.Joined, pb.JoinGroupResponse, _NAMES | {"members": Mapped(nested=_JOINED_MEMBER)}
)
_ASSIGNMENTS: Final = Mapped(decode=lambda parts: {part.member_id: part.assignment for part in parts})
_SYNC: Final = Conversion(c.Sync, pb.SyncGroupRequest, _NAMES | {"assignments": _ASSIGNMENTS})
_SYNCED: Final = Conversion(c.Synced, pb.SyncGroupResponse, _NAMES)
_COMPLETE: Final = Conversion(
    c.CompleteTransaction, pb.CompleteTransactionRequest, {"commit": "transaction_result"}
)
_OFFSET: Final = Conversion(
    c.Committed,
    pb.OffsetCommitRequest.Partition,
    {"offset": "committed_offset", "leader_epoch": "committed_leader_epoch"},
)
_DESCRIBED_MEMBER: Final = Conversion(c.DescribedConsumer, pb.ConsumerGroupDescribeResponse.Member, _NAMES)
_DESCRIPTION: Final = Conversion(
    c.ConsumersDescription,
    pb.ConsumerGroupDescribeResponse,
    _NAMES | {"members": Mapped(nested=_DESCRIBED_MEMBER)},
)
