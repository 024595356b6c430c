"""The services of each role. Only this package imports several services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from sharebroker_server.broker.context import BrokerContext
from sharebroker_server.broker.roles.gateway import gateway
from sharebroker_server.broker.roles.group_coordinator import group_coordinator
from sharebroker_server.broker.roles.share_coordinator import share_coordinator
from sharebroker_server.broker.roles.share_partition_leader import share_partition_leader
from sharebroker_server.routing.router import GATEWAY, GROUP_COORDINATOR, LEADER, SHARE_COORDINATOR
from sharebroker_server.rpc.server import Service

Start = Callable[[BrokerContext, AsyncExitStack], Awaitable[list[Service]]]

ORDER: dict[str, Start] = {
    SHARE_COORDINATOR: share_coordinator,
    GROUP_COORDINATOR: group_coordinator,
    LEADER: share_partition_leader,
    GATEWAY: gateway,
}
"""The start function of each role, in start order: roles that other roles call come first."""
