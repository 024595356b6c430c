"""The group coordinator's gRPC service.

Errors of a whole call are raised; others are part of the response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.coordinator_runtime.machine import Effect
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core.consumer_groups.commands import ListConsumers
from sharebroker_server.group_coordinator.core.consumer_groups.group import DeferredReply
from sharebroker_server.group_coordinator.core.share_groups.commands import (
    ListGroups,
    MemberFenced,
    Rebalanced,
)
from sharebroker_server.group_coordinator.service.consumer_groups import ConsumerGroupRpcs
from sharebroker_server.group_coordinator.service.fenced_members import FencedMembers
from sharebroker_server.group_coordinator.service.group_log import GroupLogRpcs
from sharebroker_server.group_coordinator.service.metrics import GroupMetrics
from sharebroker_server.group_coordinator.service.shards import Host
from sharebroker_server.group_coordinator.service.share_groups import Ports, ShareGroupRpcs

SHARE: Final = "share"
CLASSIC: Final = "classic"
"""Kafka's names of group types."""

_Listed = pb.ListGroupsResponse.ListedGroup


class GroupCoordinator(ShareGroupRpcs, ConsumerGroupRpcs, GroupLogRpcs):
    """Kafka's RPCs of share groups and consumer groups. Close it before its host is stopped."""

    def __init__(self, host: Host, config: GroupCoordinatorConfig, ports: Ports) -> None:
        ShareGroupRpcs.__init__(self, host, config, ports)
        ConsumerGroupRpcs.__init__(self, host, ports.transactions)
        GroupLogRpcs.__init__(self, host, ports.view, config.runtime.clock)
        self._rebalances = 0
        self._fenced = FencedMembers(host, ports.member_left)

    async def close(self) -> None:
        """Cancels what runs in the background."""
        await self._fenced.close()
        await self._states.close()

    def metrics(self, most: Callable[[], int], retention_ms: Callable[[str], int]) -> GroupMetrics:
        """Returns the metrics of the groups in this process (see `GroupMetrics`)."""
        return GroupMetrics(self._host, self._lags, most, lambda: self._rebalances, retention_ms)

    def perform(self, effect: Effect) -> None:
        """Executes an effect of a durable decision."""
        match effect:
            case DeferredReply(reply_id, result):
                self._deferred.resolve(reply_id, result)
            case MemberFenced(group_id, member_id):
                self._fenced.release(group_id, member_id)
            case Rebalanced(count):
                self._rebalances += count
            case _:
                raise TypeError(f"not an effect of groups: {effect!r}")

    async def ListGroups(self, request: pb.ListGroupsRequest, _context: Any) -> pb.ListGroupsResponse:
        """Kafka: ListGroups (16)."""
        shared, shards = await self._host.list_all(ListGroups())
        consumers, _ = await self._host.list_all(ListConsumers())
        return pb.ListGroupsResponse(groups=listed(shared, consumers, request), shards=shards)


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
