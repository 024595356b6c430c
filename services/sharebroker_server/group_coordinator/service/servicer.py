"""The group coordinator's gRPC service.

Errors of a whole call are raised; others are part of the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as consumers_pb
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
    GroupCoordinatorServiceServicer,
)
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as log_pb
from sharebroker_server.aio import Tasks
from sharebroker_server.coordinator_runtime.machine import Effect
from sharebroker_server.group_coordinator.clients.log_ends import LogEnds
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.commands import (
    DescribeGroup,
    GroupDescription,
    ListGroups,
    UnchangedHeartbeat,
)
from sharebroker_server.group_coordinator.core.consumer_groups.effects import DeferredReply
from sharebroker_server.group_coordinator.core.share_groups.effects import MemberFenced, Rebalanced
from sharebroker_server.group_coordinator.core.view import ClusterView
from sharebroker_server.group_coordinator.service.consumer_groups.deferred_replies import DeferredReplies
from sharebroker_server.group_coordinator.service.consumer_groups.offsets_log import OffsetsLog
from sharebroker_server.group_coordinator.service.consumer_groups.rpcs import ConsumerGroupRpcs
from sharebroker_server.group_coordinator.service.messages import (
    Described,
    described,
    heartbeat_in,
    heartbeat_out,
    listed,
    not_described,
)
from sharebroker_server.group_coordinator.service.shards import Host, Shards
from sharebroker_server.group_coordinator.service.share_groups.administration import (
    Administration,
    StateChanged,
)
from sharebroker_server.group_coordinator.service.share_groups.lag import Lags
from sharebroker_server.group_coordinator.service.share_groups.membership import MemberLeft, Membership
from sharebroker_server.group_coordinator.service.share_groups.metrics import GroupMetrics
from sharebroker_server.group_coordinator.service.share_groups.share_states import ShareStates
from sharebroker_server.persister.port import Persister
from sharebroker_server.routing.transaction_check import TransactionCheck

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Ports:
    """The collaborators of the group coordinator.

    `member_left` is called when a member left or was fenced. `state_changed` receives a group and the
    partitions whose share state was replaced; leaders load it again. `transactions` confirms open
    transactions.
    """

    view: ClusterView
    persister: Persister
    ends: LogEnds
    member_left: MemberLeft
    state_changed: StateChanged
    transactions: TransactionCheck


class GroupCoordinator(GroupCoordinatorServiceServicer):
    """Kafka's RPCs of share groups and consumer groups. Close it before its host is stopped."""

    def __init__(self, host: Host, config: GroupCoordinatorConfig, ports: Ports) -> None:
        self._view = ports.view
        self._member_left = ports.member_left
        self._rebalances = 0
        self._tasks = Tasks(_log_failure)
        self._shards = Shards(host, config)
        self._states = ShareStates(ports.persister, self._shards, config.state_timeout)
        self._membership = Membership(self._shards, self._states, ports.member_left, config.initialize_wait)
        self._administration = Administration(self._shards, self._states, ports.view, ports.state_changed)
        self._deferred = DeferredReplies()
        self._consumers = ConsumerGroupRpcs(self._shards, self._deferred, ports.transactions)
        self._offsets_log = OffsetsLog(host, ports.view, config.runtime.clock)
        self._lags = Lags(self._shards, ports.view, ports.persister, ports.ends)

    async def close(self) -> None:
        """Cancels what runs in the background."""
        await self._tasks.stop()
        await self._states.close()

    def metrics(self, most: Callable[[], int]) -> GroupMetrics:
        """Returns the metrics of the groups in this process; `most` limits the number of series."""
        return GroupMetrics(self._shards, self._lags, most, lambda: self._rebalances)

    def perform(self, effect: Effect) -> None:
        """Executes an effect of a durable decision."""
        match effect:
            case DeferredReply(reply_id, result):
                self._deferred.resolve(reply_id, result)
            case MemberFenced(group_id, member_id):
                _log.info("member session timed out", group=group_id, member=member_id)
                self._tasks.spawn(self._release_fenced(group_id, member_id))
            case Rebalanced(count):
                self._rebalances += count
            case _:
                raise TypeError(f"not an effect of groups: {effect!r}")

    def stays(self, group_id: str, member_id: str, member_epoch: int) -> bool:
        """Extends the session of a member whose heartbeat repeats its last one; False if it must be sent."""
        return self._membership.extend_session(UnchangedHeartbeat(group_id, member_id, member_epoch))

    async def ShareGroupHeartbeat(
        self, request: pb.ShareGroupHeartbeatRequest, _context: Any
    ) -> pb.ShareGroupHeartbeatResponse:
        """Kafka: ShareGroupHeartbeat (76)."""
        return heartbeat_out(await self._membership.heartbeat(heartbeat_in(request)))

    async def ShareGroupDescribe(
        self, request: pb.ShareGroupDescribeRequest, _context: Any
    ) -> pb.ShareGroupDescribeResponse:
        """Kafka: ShareGroupDescribe (77)."""
        groups = await asyncio.gather(*map(self._describe, request.group_ids))
        return pb.ShareGroupDescribeResponse(groups=groups)

    async def ListGroups(self, request: pb.ListGroupsRequest, _context: Any) -> pb.ListGroupsResponse:
        """Kafka: ListGroups (16)."""
        states, shards = await self._shards.list(ListGroups())
        found = listed(states, await self._consumers.list(), request)
        return pb.ListGroupsResponse(groups=found, shards=shards)

    async def DeleteGroups(self, request: pb.DeleteGroupsRequest, _context: Any) -> pb.DeleteGroupsResponse:
        """Kafka: DeleteGroups (42)."""
        epochs, delete = request.group_epochs, self._administration.delete_group
        results = await asyncio.gather(
            *(delete(group_id, epochs.get(group_id)) for group_id in request.group_ids)
        )
        return pb.DeleteGroupsResponse(results=results)

    async def DescribeShareGroupOffsets(
        self, request: pb.DescribeShareGroupOffsetsRequest, _context: Any
    ) -> pb.DescribeShareGroupOffsetsResponse:
        """Kafka: DescribeShareGroupOffsets (90)."""
        groups = await asyncio.gather(*map(self._lags.describe, request.groups))
        return pb.DescribeShareGroupOffsetsResponse(groups=groups)

    async def AlterShareGroupOffsets(
        self, request: pb.AlterShareGroupOffsetsRequest, _context: Any
    ) -> pb.AlterShareGroupOffsetsResponse:
        """Kafka: AlterShareGroupOffsets (91)."""
        return await self._administration.alter_offsets(request)

    async def DeleteShareGroupOffsets(
        self, request: pb.DeleteShareGroupOffsetsRequest, _context: Any
    ) -> pb.DeleteShareGroupOffsetsResponse:
        """Kafka: DeleteShareGroupOffsets (92)."""
        return await self._administration.delete_offsets(request)

    async def JoinGroup(self, request: consumers_pb.JoinGroupRequest, _context: Any) -> Any:
        """Kafka: JoinGroup (11)."""
        return await self._consumers.join(request)

    async def SyncGroup(self, request: consumers_pb.SyncGroupRequest, _context: Any) -> Any:
        """Kafka: SyncGroup (14)."""
        return await self._consumers.sync(request)

    async def Heartbeat(self, request: consumers_pb.HeartbeatRequest, _context: Any) -> Any:
        """Kafka: Heartbeat (12)."""
        return await self._consumers.heartbeat(request)

    async def LeaveGroup(self, request: consumers_pb.LeaveGroupRequest, _context: Any) -> Any:
        """Kafka: LeaveGroup (13)."""
        return await self._consumers.leave(request)

    async def OffsetCommit(self, request: consumers_pb.OffsetCommitRequest, _context: Any) -> Any:
        """Kafka: OffsetCommit (8)."""
        return await self._consumers.commit(request)

    async def TxnOffsetCommit(self, request: consumers_pb.TxnOffsetCommitRequest, _context: Any) -> Any:
        """Kafka: TxnOffsetCommit (28)."""
        return await self._consumers.commit_in_transaction(request)

    async def CompleteTransaction(
        self, request: consumers_pb.CompleteTransactionRequest, _context: Any
    ) -> Any:
        """Kafka: WriteTxnMarkers (27)."""
        return await self._consumers.complete(request)

    async def OffsetFetch(self, request: consumers_pb.OffsetFetchRequest, _context: Any) -> Any:
        """Kafka: OffsetFetch (9)."""
        return await self._consumers.fetch(request)

    async def OffsetDelete(self, request: consumers_pb.OffsetDeleteRequest, _context: Any) -> Any:
        """Kafka: OffsetDelete (47)."""
        return await self._consumers.forget(request)

    async def ConsumerGroupDescribe(
        self, request: consumers_pb.ConsumerGroupDescribeRequest, _context: Any
    ) -> Any:
        """Kafka: DescribeGroups (15), one group."""
        return await self._consumers.describe(request.group_id)

    async def FetchGroupLog(self, request: log_pb.FetchShareGroupStateRequest, _context: Any) -> Any:
        """Returns commits of a shard in Kafka's format; raises, among others, OFFSET_OUT_OF_RANGE."""
        return await self._offsets_log.fetch(request)

    async def FindGroupLogOffset(
        self, request: log_pb.FindShareGroupStateOffsetRequest, _context: Any
    ) -> Any:
        """Returns an offset of a shard's log by time; raises as FetchGroupLog does."""
        return await self._offsets_log.find_offset(request)

    async def _release_fenced(self, group_id: str, member_id: str) -> None:
        """Releases the records of a fenced member, unless it has joined again."""
        try:
            group = await self._shards.request(DescribeGroup(group_id), group_id, GroupDescription)
        except KafkaError as error:
            _log.info("fenced member not released", group=group_id, member=member_id, error=str(error))
            return
        if member_id not in group.members:
            self._member_left(group_id, member_id)

    async def _describe(self, group_id: str) -> Described:
        try:
            group = await self._shards.request(DescribeGroup(group_id), group_id, GroupDescription)
        except KafkaError as error:
            return not_described(group_id, error)
        return described(group, self._view)


def _log_failure(error: BaseException) -> None:
    _log.error("release of a fenced member failed", exc_info=error)
