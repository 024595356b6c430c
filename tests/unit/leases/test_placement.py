"""Placement: the preferred owner of each resource."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.leases import names
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.names import CATALOG, kind_of, partition, shard
from sharebroker_server.leases.placement import preferred, spread, succeeds
from sharebroker_server.leases.port import IMPORTING, ClusterMember
from tests.unit.leases.harness import ROLE, TTL, Cluster


@pytest.mark.parametrize(
    ("owner", "earlier", "expected"),
    [
        ("1/2", "1/1", True),
        ("1/10", "1/9", True),
        ("1/1", "1/1", False),
        ("1/1", "1/2", False),
        ("2/2", "1/1", False),
        ("11/2", "1/1", False),
    ],
)
def test_later_incarnation_replaces_an_earlier_one(owner: str, earlier: str, expected: bool) -> None:
    assert succeeds(owner, earlier) is expected


def test_no_member_is_preferred_without_the_role() -> None:
    gateway = ClusterMember("1/1", 1, frozenset({"gateway"}), "")
    assert preferred("catalog", "group-coordinator", []) is None
    assert preferred("catalog", "group-coordinator", [gateway]) is None
    assert preferred("catalog", "gateway", [gateway]) == gateway


def test_no_member_owns_a_coordinator_while_an_import_writes() -> None:
    roles = frozenset({"group-coordinator", "share-coordinator", "share-partition-leader"})
    server = ClusterMember("1/1", 1, roles, "node1:9090")
    members = [server, ClusterMember("2/1", 2, frozenset({IMPORTING}), "import")]
    assert spread(["share-coordinator:0"], "share-coordinator", members) == {}
    assert preferred("catalog", "group-coordinator", iter(members)) is None
    assert preferred("partition:t:0", "share-partition-leader", members) == server


def test_resource_names_contain_their_kind() -> None:
    assert shard("share-coordinator", 7) == "share-coordinator:7"
    assert partition("topic-id", 3) == "partition:topic-id:3"
    assert [kind_of(name) for name in (CATALOG, shard("group-coordinator", 1), partition("t", 0))] == [
        "catalog",
        "group-coordinator",
        "partition",
    ]


async def test_partitions_of_a_topic_are_spread_evenly_as_they_grow(cluster: Cluster) -> None:
    sizes = {"t": 6}
    holders = []
    for number in (1, 2, 3):
        member = ClusterMember(
            f"{number}/1", number, frozenset({"share-partition-leader"}), f"node{number}:9090"
        )
        await cluster.store.announce(member, TTL)
        holders.append(LeaseHolder(cluster.store, member, TTL, partitions=lambda topic: sizes.get(topic, 0)))
    for holder in holders:
        await holder._refresh_members()

    def owners(topic: str, count: int) -> list[int]:
        node_ids = []
        for index in range(count):
            [owner] = {holder._placement.owner(names.partition(topic, index)) for holder in holders}
            assert owner is not None
            node_ids.append(owner.node_id)
        return node_ids

    assert sorted(Counter(owners("t", 6)).values()) == [2, 2, 2]
    sizes["t"] = 9
    assert sorted(Counter(owners("t", 9)).values()) == [3, 3, 3]
    assert set(owners("an unknown topic", 50)) == {1, 2, 3}


async def test_leases_move_at_a_renewal_after_their_topic_has_grown(cluster: Cluster) -> None:
    sizes, moved = {"t": 4}, list[str]()

    async def lost(resource: str) -> None:
        moved.append(resource)

    async def acquired(resource: str, epoch: int) -> None: ...

    holders = []
    for number in (1, 2, 3):
        role = "share-partition-leader"
        member = ClusterMember(f"{number}/1", number, frozenset({role}), f"node{number}:9090")
        await cluster.store.announce(member, 1e6)
        holder = LeaseHolder(
            cluster.store,
            member,
            TTL,
            clock=lambda: cluster.now,
            partitions=lambda topic: sizes.get(topic, 0),
        )
        holder.register(names.PARTITION, lambda: (), role, acquired, lost)
        holders.append(holder)
    everything = names.partitions("t", sizes["t"])
    for holder in holders:
        await holder.reconcile()
        for resource in everything:
            await holder.acquire(resource)
    held = {resource: holder for holder in holders for resource in holder.held()}
    assert held.keys() == set(everything)
    sizes["t"] = 40
    misplaced = {each for each, holder in held.items() if not holder._placement.is_ours(each)}
    assert misplaced
    for _ in range(round(TTL / 2)):
        cluster.now += 1.0
        for holder in holders:
            await holder.reconcile()
            await holder._executor.drain()
    assert set(moved) == misplaced


async def test_unregistered_kinds_are_owned_by_their_role(cluster: Cluster) -> None:
    node = cluster.node(1)
    gateway = LeaseHolder(
        cluster.store, ClusterMember("5/1", 5, frozenset({"gateway"}), ""), clock=lambda: cluster.now
    )
    await node.round()
    await gateway.reconcile()
    assert await gateway.owner_of("share-coordinator:77") == node.member
    assert await gateway.owner_of("partition:t:0") is None


@given(st.integers(0, 60), st.sets(st.integers(1, 99), max_size=7))
def test_each_resource_is_placed_at_the_best_member_that_has_room(count: int, nodes: set[int]) -> None:
    members = [ClusterMember(f"{node}/1", node, frozenset({ROLE}), f"node{node}:1") for node in nodes]
    resources = [f"{ROLE}:{index}" for index in range(count)]
    owned = dict.fromkeys(nodes, 0)
    most, extra = divmod(count, len(nodes)) if nodes else (0, 0)
    placed = spread(resources, ROLE, members)
    assert list(placed) == (resources if nodes else [])
    for resource in placed:
        full = most + 1 if sum(number > most for number in owned.values()) < extra else most
        having_room = [member for member in members if owned[member.node_id] < full]
        assert placed[resource] == preferred(resource, ROLE, having_room)
        owned[placed[resource].node_id] += 1
