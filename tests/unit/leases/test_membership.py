"""Membership: heartbeats, failure detection and the leave notice."""

from __future__ import annotations

from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.port import Member
from tests.unit.leases.harness import SHARDS, TTL, Cluster


async def test_leases_of_a_dead_broker_are_claimed_before_expiry(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await cluster.pass_time(3, first, second)
    assert first.held()
    cluster.refusing.add(first.member.address)
    await cluster.pass_time(4, second)
    assert second.held() == set(SHARDS)
    assert all(second.owned[shard] == 2 for shard in first.owned)
    assert second.holder.members == (second.member,)


async def test_silent_broker_that_listens_keeps_its_leases(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await cluster.pass_time(3, first, second)
    kept = first.held()
    await cluster.pass_time(6, second)
    assert not second.held() & kept
    assert first.member in second.holder.members


async def test_broker_with_heartbeats_is_alive_even_if_its_port_refuses(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await cluster.pass_time(3, first, second)
    kept = dict(first.owned)
    cluster.refusing.add(first.member.address)
    await cluster.pass_time(6, first, second)
    assert kept
    assert first.owned == kept


async def test_broker_marked_dead_loses_and_reclaims_its_leases(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await cluster.pass_time(3, first, second)
    kept = dict(first.owned)
    first.events.clear()
    cluster.refusing.add(first.member.address)
    await cluster.pass_time(4, second)
    cluster.refusing.clear()
    await cluster.pass_time(3, first, second)
    assert {shard for event, shard in first.events if event == "lost"} == set(kept)
    assert first.owned == {shard: epoch + 2 for shard, epoch in kept.items()}, "another had them meanwhile"


async def test_owner_of_a_dead_brokers_lease_is_the_successor(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await cluster.pass_time(3, first, second)
    looking = LeaseHolder(cluster.store, Member("3/1", 3, frozenset(), "node3:9090"), TTL)
    shard = min(first.held())
    assert await looking.owner_of(shard) == first.member
    await cluster.store.mark_dead(first.member, TTL + 5.0, 0.0)
    looking.forget(shard)
    await looking.reconcile()
    assert await looking.owner_of(shard) == second.member


async def test_leave_notice_precedes_the_hand_over(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await first.holder.start()
    await second.round()
    await first.round()
    await first.holder._executor.drain()
    kept = first.held()
    await first.holder.announce_leaving()
    await first.round()
    assert first.held() == kept, "it serves on"
    await second.round()
    [leaving, _] = second.holder.members
    assert leaving.is_leaving
    assert await second.holder.owner_of(min(kept)) == leaving
    await first.holder.stop()
    await second.round()
    assert second.held() == set(SHARDS)
