"""The roles of a broker on stores in memory: their services, and the resources that the process closes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceStub
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import ShareCoordinatorServiceStub
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_server.broker import roles
from sharebroker_server.broker.access_control import AccessControl
from sharebroker_server.broker.roles import ORDER, BrokerContext, Storage
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.users import CreateUser
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.kafka.cluster_view import LiveMembers
from sharebroker_server.gateway.kafka.listener import KafkaServer
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.membership import IsRefused
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.persister.port import NoOpPersister
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.routing.router import GATEWAY, GROUP_COORDINATOR, LEADER, SHARE_COORDINATOR, Router
from sharebroker_server.security.authentication.scram import ScramMechanism, new_credential
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import MemoryStreamLog
from tests.testkit.waiting import eventually

SCRAM = ScramMechanism.SCRAM_SHA_256
CONFIG = BrokerConfig.parse(["node.id=1"])
SERVICES = {
    SHARE_COORDINATOR: ["sharebroker.share_coordinator.v1.ShareCoordinatorService"],
    GROUP_COORDINATOR: [
        "sharebroker.transaction_coordinator.v1.TransactionCoordinatorService",
        "sharebroker.group_coordinator.v1.GroupCoordinatorService",
        "sharebroker.cluster.v1.ClusterService",
    ],
    LEADER: [
        "sharebroker.share_coordinator.v1.ShareCoordinatorService",
        "sharebroker.share_partition_leader.v1.SharePartitionLeaderService",
    ],
    GATEWAY: [
        "sharebroker.gateway.v1.ShareService",
        "sharebroker.gateway.v1.ProduceService",
        "sharebroker.gateway.v1.PlanService",
        "externalscaler.ExternalScaler",
        "sharebroker.gateway.v1.AdminService",
        "sharebroker.gateway.v1.DeadLetterService",
    ],
}


class Harness:
    """A broker's context without Redis, and the stack that ends what roles start."""

    def __init__(self, stack: AsyncExitStack) -> None:
        leases = MemoryLeaseStore()
        log, records = MemoryStreamLog(leases.epoch_of), MemoryRecordStore(leases.epoch_of)
        holder = LeaseHolder(leases, ClusterMember("1/1", 1, frozenset(ORDER), "here:1"))
        router = Router(holder, "1/1", group_shards=50, share_shards=50, transaction_shards=50)
        stack.push_async_callback(router.close)
        self.stack = stack
        settings = ServeSettings(config=CONFIG)
        self.context = BrokerContext(
            settings,
            Storage(Keys(), log, records, leases),
            holder,
            MetadataCache(log, CONFIG),
            router,
            NoOpPersister(),
            kafka=None,
            access=AccessControl(settings, stack),
        )

    async def services(self, role: str) -> list[str]:
        return [service.name for service in await ORDER[role](self.context, self.stack)]


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    async with AsyncExitStack() as stack:
        yield Harness(stack)


def test_roles_that_other_roles_call_start_first() -> None:
    assert list(ORDER) == [SHARE_COORDINATOR, GROUP_COORDINATOR, LEADER, GATEWAY]


@pytest.mark.parametrize("role", ORDER)
async def test_role_serves_its_services_alone(harness: Harness, role: str) -> None:
    assert await harness.services(role) == SERVICES[role]


async def test_register_functions_belong_to_the_services(harness: Harness) -> None:
    for start in ORDER.values():
        for service in await start(harness.context, harness.stack):
            name = service.name.rpartition(".")[2]
            assert service.register.__name__ == f"add_{name}Servicer_to_server"


@pytest.mark.parametrize(
    ("role", "stub"),
    [
        (SHARE_COORDINATOR, ShareCoordinatorServiceStub),
        (GROUP_COORDINATOR, GroupCoordinatorServiceStub),
        (LEADER, SharePartitionLeaderServiceStub),
    ],
)
async def test_own_services_are_called_directly(harness: Harness, role: str, stub: type) -> None:
    assert harness.context.router.local_calls(stub) is None
    await harness.services(role)
    assert harness.context.router.local_calls(stub) is not None


async def test_a_broker_without_its_first_user_is_not_ready(harness: Harness) -> None:
    settings = replace(
        harness.context.settings, first_user=CreateUser("alice", {SCRAM: new_credential(SCRAM, "pen")})
    )
    context = harness.context = replace(harness.context, settings=settings)
    await harness.services(GROUP_COORDINATOR)
    (missing,) = context.observability.health.missing
    assert missing() == ["the user alice"]
    await context.catalog.start()
    harness.stack.push_async_callback(context.catalog.stop)
    await context.holder.start()
    harness.stack.push_async_callback(context.holder.stop)
    await eventually(lambda: missing() == [])


@pytest.mark.parametrize(
    ("role", "rechecks", "hosts", "drains"),
    [(SHARE_COORDINATOR, 1, 1, 0), (GROUP_COORDINATOR, 3, 3, 0), (LEADER, 1, 0, 0), (GATEWAY, 0, 0, 1)],
)
async def test_each_state_is_verified_after_a_restart_of_redis(
    harness: Harness, role: str, rechecks: int, hosts: int, drains: int
) -> None:
    await harness.services(role)
    context = harness.context
    assert (len(context.rechecks), len(context.hosts), len(context.drains)) == (rechecks, hosts, drains)


async def test_metric_labels_are_limited_by_the_effective_config(harness: Harness) -> None:
    assert harness.context.most_series() == 1000
    harness.context.catalog.broker = CONFIG.override({"metrics.max.share.partitions": "7"})
    assert harness.context.most_series() == 7


async def test_live_members_are_read_without_code_of_roles(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[LiveMembers] = []

    class Kept(LiveMembers):
        def __init__(self, members: Any, refused: IsRefused) -> None:
            super().__init__(members, refused)
            made.append(self)

    monkeypatch.setattr(roles, "LiveMembers", Kept)
    server = KafkaServer()
    harness.stack.callback(server.close)
    context = harness.context
    roles._open_kafka(context, server, Gateway(context.router, context.catalog, CONFIG))
    membership = context.holder.membership
    membership.live = (ClusterMember("2/1", 2, frozenset({GATEWAY}), "there:1"),)
    frames: list[str] = []

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            frames.append(frame.f_code.co_filename)

    sys.setprofile(record)
    live = made[0].live()
    sys.setprofile(None)
    assert live == membership.live
    assert roles.__file__ not in frames
