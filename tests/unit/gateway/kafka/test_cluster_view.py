"""The brokers in Metadata responses: one epoch and one leader everywhere, live members, leader hints."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID, STATE_TOPIC_ID
from sharebroker_server.gateway.kafka import cluster_view
from sharebroker_server.gateway.kafka.cluster_view import Broker as Address
from sharebroker_server.gateway.kafka.cluster_view import Brokers, ClusterView, LiveMembers
from sharebroker_server.kafka_wire.messages import FetchResponse
from sharebroker_server.leases import names
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import GATEWAY, GROUP_COORDINATOR, SHARE_COORDINATOR
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.unit.gateway.kafka.api.harness import LOCAL, PEER


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


class Broker:
    """One of the brokers, with its view of its peers."""

    def __init__(self, number: int, store: MemoryLeaseStore, clock: Clock) -> None:
        roles = frozenset({GATEWAY})
        self.member = ClusterMember(f"{number}/1", number, roles, f"host-{number}", f"127.0.0.1:{number}")
        self.members: list[ClusterMember] = [self.member]
        self.dead: set[str] = set()
        announced = LiveMembers(self, self.refused, clock)
        self.brokers = Brokers(announced, self.member, store, hash, lambda _: 1, clock)

    async def refused(self, address: str) -> bool:
        return address in self.dead

    async def epoch(self) -> int:
        return (await self.brokers.view()).epoch


def started(number: int) -> tuple[Clock, MemoryLeaseStore, list[Broker]]:
    clock = Clock()
    store = MemoryLeaseStore(clock)
    return clock, store, [Broker(one, store, clock) for one in range(1, number + 1)]


async def test_epoch_increases_with_each_change_only() -> None:
    _, _, [one, two] = started(2)
    assert [await one.epoch(), await one.epoch()] == [1, 1]
    one.members = [one.member, two.member]
    assert [await one.epoch(), await one.epoch()] == [2, 2]


async def test_brokers_converge_in_any_order_of_discovery() -> None:
    clock, _, [one, two, three] = started(3)
    everybody = [one.member, two.member, three.member]
    three.members = everybody
    assert await three.epoch() == 1
    assert await one.epoch() == 2
    two.members = [one.member, two.member]
    assert await two.epoch() == 3
    one.members = two.members = everybody
    assert [await one.epoch(), await two.epoch(), await three.epoch()] == [4, 4, 1]
    clock.time += 1
    assert [await one.epoch(), await two.epoch(), await three.epoch()] == [4, 4, 4]


async def test_epoch_never_decreases() -> None:
    """This also holds after the store lost its last writes."""
    clock, _, [one, two] = started(2)
    for known in ([one.member], [one.member, two.member], [one.member]):
        one.members = known
        await one.epoch()
    one.brokers._generations = MemoryLeaseStore(clock)
    clock.time += 5
    assert await one.epoch() == 3
    one.members = [one.member, two.member]
    assert await one.epoch() == 3
    clock.time += 5
    assert await one.epoch() == 3


async def test_epoch_is_kept_while_the_store_is_unavailable() -> None:
    clock, store, [one, two] = started(2)
    assert await one.epoch() == 1
    one.members = [one.member, two.member]
    store.away = True
    clock.time += 5
    view = await one.brokers.view()
    assert (view.epoch, [*view.brokers]) == (1, [1])
    store.away = False
    view = await one.brokers.view()
    assert (view.epoch, [*view.brokers]) == (2, [1, 2])


async def test_leaving_broker_redirects_clients_after_its_peers_detect_it() -> None:
    clock, _, [one, two, three] = started(3)
    everybody = [one.member, two.member, three.member]
    for broker in (one, two, three):
        broker.members = everybody
    assert [await one.epoch(), await two.epoch(), await three.epoch()] == [1, 1, 1]
    members = [one.member.as_leaving(), two.member, three.member]
    one.members = members
    view = await one.brokers.view()
    assert view.members == tuple(everybody)
    assert one.brokers.unchanged(view)
    two.members = three.members = members
    assert [await two.epoch(), await three.epoch()] == [2, 2]
    clock.time += 0.3
    assert await one.epoch() == 1  # it requests no epoch: that would be one for the former brokers
    clock.time += 0.2
    assert not one.brokers.unchanged(view)
    view = await one.brokers.view()
    assert (view.epoch, [*view.brokers]) == (2, [2, 3])
    assert [await two.epoch(), await three.epoch()] == [2, 2]


async def test_departed_broker_is_listed_for_a_while_without_partitions() -> None:
    """librdkafka drops an unlisted broker at once, with the responses in flight from it."""
    clock, _, [one, two, three] = started(3)
    one.members = [one.member, two.member, three.member]
    before = await one.brokers.view()
    assert [*before.listed] == [*before.brokers] == [1, 2, 3]
    one.members = [one.member, two.member.as_leaving(), three.member]
    view = await one.brokers.view()
    assert ([*view.brokers], sorted(view.listed)) == ([1, 3], [1, 2, 3])
    assert view.listed[2] == before.brokers[2]
    clock.time += 2
    one.members = [one.member, two.member.as_leaving(), three.member.as_leaving()]
    view = await one.brokers.view()
    assert ([*view.brokers], sorted(view.listed)) == ([1], [1, 2, 3])
    clock.time += 4
    one.members = [one.member, two.member]
    view = await one.brokers.view()
    assert ([*view.brokers], sorted(view.listed)) == ([1, 2], [1, 2, 3])
    clock.time += 2
    assert [*(await one.brokers.view()).listed] == [1, 2]


async def test_lost_broker_is_not_listed() -> None:
    """Listing it would make clients back off and reconnect slowly after its restart."""
    _, _, [one, two] = started(2)
    one.members = [one.member, two.member]
    assert [*(await one.brokers.view()).listed] == [1, 2]
    one.members = [one.member]
    assert [*(await one.brokers.view()).listed] == [1]


async def test_unreachable_broker_leads_nothing_before_its_lease_expires() -> None:
    clock, _, [one, two, three] = started(3)
    one.members = three.members = [one.member, two.member, three.member]
    assert [(await one.brokers.checked()).epoch for _ in range(2)] == [1, 1]
    one.dead.add(two.member.address)
    assert [*(await one.brokers.checked()).brokers] == [1, 2, 3]  # broker 2 was probed in this step
    clock.time += 0.2
    view = await one.brokers.checked()
    assert (view.epoch, [*view.brokers], sorted(view.listed)) == (2, [1, 3], [1, 2, 3])
    clock.time += 1
    one.members = three.members = [one.member, three.member]
    assert [*(await one.brokers.checked()).brokers] == [*(await three.brokers.checked()).brokers] == [1, 3]
    again = replace(two.member, owner="2/2")
    one.members = [one.member, again, three.member]
    one.dead.clear()
    assert [*(await one.brokers.checked()).brokers] == [1, 2, 3]


async def test_announced_broker_is_suspected_only_once() -> None:
    """A firewall between two gateways may refuse the probe."""
    clock, _, [one, two] = started(2)
    one.members = [one.member, two.member]
    one.dead.add(two.member.address)
    await one.brokers.view()
    clock.time += 1
    assert [*(await one.brokers.checked()).brokers] == [1]
    for _ in range(5):
        clock.time += 4
        assert [*(await one.brokers.checked()).brokers] == [1, 2]


async def test_unresponsive_broker_delays_the_view_only_briefly() -> None:
    _, _, [one, two] = started(2)
    one.members = [one.member, two.member]
    silence = asyncio.Event()

    async def refused(_: str) -> bool:
        return await silence.wait()

    one.brokers._live_members._refused = refused
    await one.brokers.view()
    assert [*(await one.brokers.checked()).brokers] == [1, 2]
    silence.set()
    assert [*(await one.brokers.checked()).brokers] == [1]


async def test_leaving_broker_lists_itself_until_it_stops() -> None:
    clock, _, [one, two] = started(2)
    one.members = [one.member, two.member]
    assert await one.epoch() == 1
    one.members = [one.member.as_leaving(), two.member]
    await one.brokers.view()
    assert not (await one.brokers.view()).leaving
    clock.time += 1
    view = await one.brokers.view()
    assert ([*view.brokers], sorted(view.listed), view.leaving) == ([2], [1, 2], True)


async def test_last_leaving_broker_stays_until_another_is_announced() -> None:
    clock, _, [one, two] = started(2)
    one.members = [one.member.as_leaving()]
    clock.time += 5
    assert [*(await one.brokers.view()).brokers] == [1]
    one.members = [one.member.as_leaving(), two.member]
    clock.time += 5
    assert [*(await one.brokers.view()).brokers] == [1]  # broker 2 was announced in this step
    clock.time += 1
    assert [*(await one.brokers.view()).brokers] == [2]
    one.members = [one.member, two.member]
    clock.time += 5
    assert [*(await one.brokers.view()).brokers] == [1, 2]


def view_of(me: int, *nodes: int, partitions: int = 60) -> ClusterView:
    members = [ClusterMember(f"{n}/1", n, frozenset({GATEWAY}), "", f"127.0.0.1:{9000 + n}") for n in nodes]
    return ClusterView(tuple(members), me, 7, lambda group: len(group) % 50, lambda _: partitions)


def test_partitions_and_groups_are_spread_equally_on_every_broker() -> None:
    views = [view_of(me, 1, 2, 3) for me in (1, 2, 3)]
    leaders = [[view.leader("t" * 22, partition) for partition in range(60)] for view in views]
    assert leaders[0] == leaders[1] == leaders[2]
    assert [leaders[0].count(node) for node in (1, 2, 3)] == [20, 20, 20]
    groups = [[view.coordinator("g" * size) for size in range(50)] for view in views]
    assert groups[0] == groups[1] == groups[2]
    assert {*groups[0]} == {1, 2, 3}
    assert all(view.leads("t" * 22, 0) == (view.local_id == leaders[0][0]) for view in views)


async def test_coordinator_is_the_owner_of_the_shard() -> None:
    """If each process has all roles, clients are sent to the owner of the lease, and evenly."""
    store, clock = MemoryLeaseStore(), Clock()
    roles = {OFFSETS_TOPIC_ID: GROUP_COORDINATOR, STATE_TOPIC_ID: SHARE_COORDINATOR}
    everything = frozenset({GATEWAY, *roles.values()})
    members = [ClusterMember(f"{n}/1", n, everything, "", f"127.0.0.1:{9000 + n}") for n in (1, 2, 3)]
    holders = [LeaseHolder(store, member, clock=clock) for member in members]
    for holder in holders:
        for role in roles.values():
            holder.register(role, partial(names.shards, role, 50), role, acquired, lost)
        await store.announce(holder.member, 10)
    for holder in holders:
        await holder.start()
    view = ClusterView(tuple(members), 1, 7, int, lambda _: 50)
    for topic_id, role in roles.items():
        leaders = [view.leader(topic_id, shard) for shard in range(50)]
        assert leaders == [
            holder.member.node_id
            for resource in names.shards(role, 50)
            for holder in holders
            if holder.holds(resource)
        ]
        assert sorted(leaders.count(node) for node in (1, 2, 3)) == [16, 17, 17]
    assert [view.coordinator(str(shard)) for shard in range(50)] == [
        view.leader(OFFSETS_TOPIC_ID, shard) for shard in range(50)
    ]
    for holder in holders:
        holder.membership.leaving = True  # all stop: no peer has to read a leave notice
    await asyncio.gather(*(holder.stop() for holder in holders))


async def acquired(_resource: str, _epoch: int) -> None:
    """Ignores an acquired shard."""


async def lost(_resource: str) -> None:
    """Ignores a lost shard."""


def test_departure_moves_only_the_partitions_of_that_broker() -> None:
    before, after = view_of(1, 1, 2, 3), view_of(1, 1, 3)
    moved = {p for p in range(60) if before.leader("t" * 22, p) != after.leader("t" * 22, p)}
    own = {p for p in range(60) if before.leader("t" * 22, p) == 2}
    assert own <= moved
    assert len(moved - own) <= 3


def test_added_partitions_are_spread_too() -> None:
    few, many = view_of(1, 1, 2), view_of(1, 1, 2, partitions=80)
    grown = replace(few, partitions=lambda _: 80)
    assert few.leader("t" * 22, 59) in (1, 2)
    assert [grown.leader("t" * 22, p) for p in range(80)] == [many.leader("t" * 22, p) for p in range(80)]


def test_missing_partition_has_a_leader() -> None:
    assert view_of(1, 1, 2).leader("t" * 22, 60) in (1, 2)
    assert view_of(1, 1, 2).leader(STATE_TOPIC_ID, 3) in (1, 2)
    alone = view_of(1)
    assert (alone.leader("t" * 22, 0), alone.leader("t" * 22, 60)) == (1, 1)


def test_single_broker_leads_all_partitions() -> None:
    view = view_of(4, 4)
    assert view.leads("t" * 22, 5)
    view.check_coordinates("any")
    assert view.brokers == {4: Address(4, "127.0.0.1", 9004)}


def test_groups_of_another_coordinator_are_rejected() -> None:
    view = view_of(1, 1, 2)
    for size in range(50):
        group = "g" * size
        if view.coordinator(group) == 1:
            view.check_coordinates(group)
        else:
            with pytest.raises(KafkaError) as refused:
                view.check_coordinates(group)
            assert refused.value.code is ErrorCode.NOT_COORDINATOR


def test_cache_of_unknown_topics_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_view, "_CACHED_TOPICS", 10)
    view = view_of(1, 1, 2)
    first = [view.leader(f"made up {number}", 0) for number in range(35)]
    assert len(view._leaders) <= 10
    assert [view.leader(f"made up {number}", 0) for number in range(35)] == first


def test_ipv6_address_is_returned_without_brackets() -> None:
    member = ClusterMember("1/1", 1, frozenset({GATEWAY}), "", "[::1]:9092")
    assert ClusterView((member,), 1, 1, hash, lambda _: 1).brokers == {1: Address(1, "::1", 9092)}


class Harness:
    """Members whose ports refuse connections if their address is in `refusing`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.members = [LOCAL, PEER]
        self.refusing: set[str] = set()
        self.probes: list[str] = []
        self.live_members = LiveMembers(self, self._refused, lambda: self.now)

    async def _refused(self, address: str) -> bool:
        self.probes.append(address)
        return address in self.refusing

    def live(self) -> list[ClusterMember]:
        return list(self.live_members.live())


async def test_member_with_a_refusing_port_is_suspected_for_a_while() -> None:
    harness = Harness()
    harness.refusing = {PEER.address}
    await harness.live_members.probe([LOCAL, PEER])
    assert harness.live() == [LOCAL]
    assert harness.live_members.is_leaving(PEER)
    harness.now += 3.0
    assert harness.live() == [LOCAL, PEER]


async def test_probe_result_is_cached_briefly() -> None:
    harness = Harness()
    await harness.live_members.probe([PEER])
    await harness.live_members.probe([PEER])
    assert harness.probes == [PEER.address]
    harness.now += 0.2
    await harness.live_members.probe([PEER])
    assert len(harness.probes) == 2


async def test_a_restarted_member_is_not_suspected() -> None:
    harness = Harness()
    harness.refusing = {PEER.address}
    await harness.live_members.probe([PEER])
    restarted = replace(PEER, owner="2/2")
    harness.members = [LOCAL, restarted]
    assert harness.live() == [LOCAL, restarted]


def test_announced_leave_is_not_a_failure() -> None:
    harness = Harness()
    harness.members = [LOCAL, PEER.as_leaving()]
    assert harness.live_members.is_leaving(PEER)
    assert not harness.live_members.is_leaving(LOCAL)


VIEW = ClusterView((LOCAL, PEER), 1, 3, lambda _: 0, lambda _: 4)


def test_partition_has_a_leader_and_an_epoch() -> None:
    for index in range(4):
        result = FetchResponse.PartitionData(partition_index=index)
        VIEW.add_leader_hints(FetchResponse(), [(TopicIdPartition("t", index), result)])
        hint = result.current_leader
        assert (hint.leader_id, hint.leader_epoch) == (VIEW.leader("t", index), 3)


def test_each_leader_has_one_endpoint() -> None:
    response = FetchResponse()
    VIEW.add_leader_hints(response, [])
    assert list(response.node_endpoints) == []
    moved = [(TopicIdPartition("t", index), FetchResponse.PartitionData()) for index in range(4)]
    VIEW.add_leader_hints(response, moved)
    assert [(one.node_id, one.host, one.port) for one in response.node_endpoints] == [
        (1, "127.0.0.1", 9092),
        (2, "127.0.0.1", 9093),
    ]
