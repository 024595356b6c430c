"""Finding owners, and direct calls to services of the same process."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceStub
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import ShareCoordinatorServiceStub
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_server.leader_calls.remote import RemoteLeader
from sharebroker_server.leases import names
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import LEADER, SHARE_COORDINATOR, Router
from sharebroker_server.rpc.stubs import LocalStub

ME = ClusterMember("1/1", 1, frozenset({LEADER, SHARE_COORDINATOR}), "127.0.0.1:1")
OTHER = ClusterMember("2/1", 2, frozenset({LEADER}), "127.0.0.1:2")


class Owners:
    """Owners by resource; nothing else is owned."""

    def __init__(self) -> None:
        self.members = [ME, OTHER]
        self.owners: dict[str, ClusterMember] = {}

    async def owner_of(self, resource: str) -> ClusterMember | None:
        return self.owners.get(resource)

    def known_owner(self, resource: str) -> ClusterMember | None:
        return self.owners.get(resource)

    def forget(self, resource: str) -> None:
        self.owners.pop(resource, None)


@pytest.fixture
def owners() -> Owners:
    return Owners()


@pytest.fixture
async def router(owners: Owners) -> Any:
    router = Router(cast("Any", owners), ME.owner)
    yield router
    await router.close()


async def test_local_leader_is_called_without_messages(owners: Owners, router: Router) -> None:
    calls: Any = object()
    router.register_local(SharePartitionLeaderServiceStub, object(), calls)
    owners.owners[names.partition("t", 0)] = ME
    owners.owners[names.partition("t", 1)] = OTHER
    mine, other = await router.leader("t", 0), await router.leader("t", 1)
    assert mine.calls is calls
    assert isinstance(cast("Any", mine.stub), LocalStub)
    assert isinstance(other.calls, RemoteLeader)
    assert [peer.member for peer in router.leaders()] == [ME, OTHER]


async def test_service_without_calls_is_called_by_messages(owners: Owners, router: Router) -> None:
    router.register_local(SharePartitionLeaderServiceStub, object())
    owners.owners[names.partition("t", 0)] = ME
    assert isinstance((await router.leader("t", 0)).calls, RemoteLeader)


async def test_partition_without_leader_raises_an_error(router: Router) -> None:
    assert router.known_leader("t", 0) is None
    with pytest.raises(KafkaError) as failure:
        await router.leader("t", 0)
    assert failure.value.code is ErrorCode.LEADER_NOT_AVAILABLE


async def test_local_state_requires_an_owned_shard(owners: Owners, router: Router) -> None:
    states = object()
    router.register_local(ShareCoordinatorServiceStub, object(), states)
    assert router.local_states(3) is None
    owners.owners[names.shard(SHARE_COORDINATOR, 3)] = OTHER
    assert router.local_states(3) is None
    owners.owners[names.shard(SHARE_COORDINATOR, 3)] = ME
    assert router.local_states(3) is states


async def test_leader_has_the_state_of_topics_that_store_it_in_their_logs(owners: Owners) -> None:
    router = Router(cast("Any", owners), ME.owner)
    router.state_in_log = {"logged"}.__contains__
    states = object()
    router.register_local(ShareCoordinatorServiceStub, object(), states)
    assert router.share_shard("g", "t", 0) == router.share_shard("g", "t", 0) != names.partition("t", 0)
    shard = router.share_shard("g", "logged", 1)
    assert shard == router.state_resource(shard) == names.partition("logged", 1)
    owners.owners[names.partition("logged", 1)] = ME
    assert router.local_states(shard) is states
    assert (await router.share_coordinator(shard)).member is ME
    router.forget_share_coordinator(shard)
    assert router.local_states(shard) is None
    await router.close()


async def test_unchanged_heartbeat_needs_a_local_group_coordinator(router: Router) -> None:
    class Groups:
        def stays(self, group_id: str, member_id: str, member_epoch: int) -> bool:
            return (group_id, member_id, member_epoch) == ("g", "m", 5)

    assert not router.stays("g", "m", 5)
    groups = Groups()
    router.register_local(GroupCoordinatorServiceStub, groups, groups)
    assert router.stays("g", "m", 5)
    assert not router.stays("g", "m", 6)


async def test_missing_shards_are_an_error(router: Router) -> None:
    router.check_all_answered(SHARE_COORDINATOR, range(50))
    with pytest.raises(KafkaError) as failure:
        router.check_all_answered(SHARE_COORDINATOR, range(49))
    assert failure.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
