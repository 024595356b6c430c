"""The group coordinator's RPCs. What is wrong with a call as a whole is raised; the rest stands in band."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from libs.persister.port import Persister
from libs.tasks import Tasks
from services.group_coordinator.clients.log_ends import LogEnds
from services.group_coordinator.config import GroupCoordinatorConfig
from services.group_coordinator.core.commands import DescribeGroup, GroupDescription, ListGroups, Stay
from services.group_coordinator.core.machine import Fenced
from services.group_coordinator.core.view import ClusterView
from services.group_coordinator.service.administration import Administration
from services.group_coordinator.service.lag import Lags
from services.group_coordinator.service.membership import Membership
from services.group_coordinator.service.messages import (
    Described,
    described,
    heartbeat_in,
    heartbeat_out,
    not_described,
)
from services.group_coordinator.service.metrics import GroupMetrics
from services.group_coordinator.service.shards import Host, Shards
from services.group_coordinator.service.share_states import ShareStates
from sharebroker.errors import KafkaError
from sharebroker.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceServicer

PROTOCOL = "share"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ports:
    """What the group coordinator stands on. `departed` is called with group id and member id of members that
    left: leaders can free the records they hold. Without a member id, share state of the group was changed.
    """

    view: ClusterView
    persister: Persister
    ends: LogEnds
    departed: Fenced


class GroupCoordinator(GroupCoordinatorServiceServicer):
    """Kafka's share group RPCs. Close it before its host is stopped."""

    def __init__(self, host: Host, config: GroupCoordinatorConfig, ports: Ports) -> None:
        self._view = ports.view
        self._departed = ports.departed
        self._tasks = Tasks(_failed)
        self._shards = Shards(host, config)
        self._states = ShareStates(ports.persister, self._shards, config.state_timeout)
        self._membership = Membership(self._shards, self._states, ports.departed, config.initialize_wait)
        self._administration = Administration(
            self._shards, self._states, ports.view, lambda group_id: ports.departed(group_id, "")
        )
        self._lags = Lags(self._shards, ports.view, ports.persister, ports.ends)

    async def close(self) -> None:
        """Gives up what is under way in the background."""
        await self._tasks.stop()
        await self._states.close()

    def metrics(self, most: Callable[[], int]) -> GroupMetrics:
        """What this process tells of its groups; `most` bounds the series."""
        return GroupMetrics(self._shards, self._lags, most)

    def fenced(self, group_id: str, member_id: str) -> None:
        """Takes note that a member's session ran out: it has departed as soon as that is durable."""
        self._tasks.spawn(self._fence(group_id, member_id))

    def stays(self, group_id: str, member_id: str, member_epoch: int) -> bool:
        """See Members."""
        return self._membership.stays(Stay(group_id, member_id, member_epoch))

    async def ShareGroupHeartbeat(
        self, request: pb.ShareGroupHeartbeatRequest, _context: Any
    ) -> pb.ShareGroupHeartbeatResponse:
        """Kafka: ShareGroupHeartbeat (76)."""
        return heartbeat_out(await self._membership.beat(heartbeat_in(request)))

    async def ShareGroupDescribe(
        self, request: pb.ShareGroupDescribeRequest, _context: Any
    ) -> pb.ShareGroupDescribeResponse:
        """Kafka: ShareGroupDescribe (77)."""
        groups = await asyncio.gather(*map(self._describe, request.group_ids))
        return pb.ShareGroupDescribeResponse(groups=groups)

    async def ListGroups(self, request: pb.ListGroupsRequest, _context: Any) -> pb.ListGroupsResponse:
        """Kafka: ListGroups (16)."""
        states, shards = await self._shards.list(
            ListGroups(frozenset(state.lower() for state in request.states_filter))
        )
        if request.types_filter and PROTOCOL not in {kind.lower() for kind in request.types_filter}:
            states = {}
        listed = pb.ListGroupsResponse.ListedGroup
        return pb.ListGroupsResponse(
            groups=[
                listed(group_id=group_id, protocol_type=PROTOCOL, group_state=state, group_type=PROTOCOL)
                for group_id, state in sorted(states.items())
            ],
            shards=shards,
        )

    async def DeleteGroups(self, request: pb.DeleteGroupsRequest, _context: Any) -> pb.DeleteGroupsResponse:
        """Kafka: DeleteGroups (42)."""
        results = await asyncio.gather(*map(self._administration.delete_group, request.group_ids))
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

    async def _fence(self, group_id: str, member_id: str) -> None:
        try:
            # Answered when all is durable that was decided before.
            group = await self._shards.ask(DescribeGroup(group_id), group_id, GroupDescription)
        except KafkaError as error:
            _logger.info("member %s of group %s is not fenced yet: %s", member_id, group_id, error)
            return
        if member_id not in group.members:
            self._departed(group_id, member_id)

    async def _describe(self, group_id: str) -> Described:
        try:
            group = await self._shards.ask(DescribeGroup(group_id), group_id, GroupDescription)
        except KafkaError as error:
            return not_described(group_id, error)
        return described(group, self._view)


def _failed(error: BaseException) -> None:
    _logger.error("telling of a fenced member failed", exc_info=error)
