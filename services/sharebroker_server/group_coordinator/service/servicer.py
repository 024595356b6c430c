"""The group coordinator's gRPC service.

Errors of a whole call are raised; others are part of the response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as log_pb
from sharebroker_server.aio import Tasks
from sharebroker_server.coordinator_runtime.machine import Effect
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.consumer_groups.commands import ListConsumers
from sharebroker_server.group_coordinator.core.consumer_groups.group import DeferredReply
from sharebroker_server.group_coordinator.core.share_groups.commands import (
    DescribeGroup,
    ListGroups,
    MemberFenced,
    Rebalanced,
)
from sharebroker_server.group_coordinator.core.share_groups.group import ShareGroup
from sharebroker_server.group_coordinator.service.consumer_groups import ConsumerGroupRpcs
from sharebroker_server.group_coordinator.service.metrics import GroupMetrics
from sharebroker_server.group_coordinator.service.shards import Host
from sharebroker_server.group_coordinator.service.share_groups import Ports, ShareGroupRpcs
from sharebroker_server.group_coordinator.store.kafka_format import OffsetsTopic
from sharebroker_server.shard_topic import reading

_log = structlog.get_logger()

SHARE: Final = "share"
CLASSIC: Final = "classic"
"""Kafka's names of group types."""

_Listed = pb.ListGroupsResponse.ListedGroup


class GroupCoordinator(ShareGroupRpcs, ConsumerGroupRpcs):
    """Kafka's RPCs of share groups and consumer groups. Close it before its host is stopped."""

    def __init__(self, host: Host, config: GroupCoordinatorConfig, ports: Ports) -> None:
        ShareGroupRpcs.__init__(self, host, config, ports)
        ConsumerGroupRpcs.__init__(self, host, ports.transactions)
        self._rebalances = 0
        self._tasks = Tasks(_log_failure)
        self._offsets_topic = OffsetsTopic(ports.view, config.runtime.clock)

    async def close(self) -> None:
        """Cancels what runs in the background."""
        await self._tasks.stop()
        await self._states.close()

    def metrics(self, most: Callable[[], int]) -> GroupMetrics:
        """Returns the metrics of the groups in this process; `most` limits the number of series."""
        return GroupMetrics(self._host, self._lags, most, lambda: self._rebalances)

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

    async def ListGroups(self, request: pb.ListGroupsRequest, _context: Any) -> pb.ListGroupsResponse:
        """Kafka: ListGroups (16)."""
        shared, shards = await self._host.list_all(ListGroups())
        consumers, _ = await self._host.list_all(ListConsumers())
        return pb.ListGroupsResponse(groups=listed(shared, consumers, request), shards=shards)

    async def FetchGroupLog(
        self, request: log_pb.FetchShareGroupStateRequest, _context: Any
    ) -> log_pb.FetchShareGroupStateResponse:
        """Returns commits of a shard in Kafka's format; raises, among others, OFFSET_OUT_OF_RANGE."""
        return await reading.fetch(self._host, self._offsets_topic.record, request)

    async def FindGroupLogOffset(
        self, request: log_pb.FindShareGroupStateOffsetRequest, _context: Any
    ) -> log_pb.FindShareGroupStateOffsetResponse:
        """Returns an offset of a shard's log by time; raises as FetchGroupLog does."""
        return await reading.find_offset(self._host, self._offsets_topic.record, request)

    async def _release_fenced(self, group_id: str, member_id: str) -> None:
        """Releases the records of a fenced member, unless it has joined again."""
        try:
            group = await self._host.request(group_id, DescribeGroup(group_id), ShareGroup)
        except KafkaError as error:
            _log.info("fenced member not released", group=group_id, member=member_id, error=str(error))
            return
        if member_id not in group.members:
            self._ports.member_left(group_id, member_id)


def listed(
    shared: Mapping[str, str], consumers: Mapping[str, tuple[str, str]], request: pb.ListGroupsRequest
) -> list[_Listed]:
    """Returns the groups that match a request, sorted by id."""
    found = [
        *((group_id, SHARE, state, SHARE) for group_id, state in shared.items()),
        *((group_id, protocol, state, CLASSIC) for group_id, (state, protocol) in consumers.items()),
    ]
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    return [
        _Listed(group_id=group_id, protocol_type=protocol, group_state=state, group_type=kind)
        for group_id, protocol, state, kind in sorted(found)
        if (not states or state.lower() in states) and (not types or kind in types)
    ]


def _log_failure(error: BaseException) -> None:
    _log.error("release of a fenced member failed", exc_info=error)
