"""Membership: heartbeats, failure detection and the leave notice."""

from __future__ import annotations

import socket
from threading import Event
from typing import Any

import pytest

from sharebroker_server.leases import membership
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.membership import PortProbe
from sharebroker_server.leases.port import IMPORTING, ClusterMember
from tests.testkit.servers import free_port
from tests.testkit.waiting import eventually
from tests.unit.leases.harness import SHARDS, TTL, Cluster


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_address_without_a_listener_is_refused(host: str) -> None:
    probe, port = PortProbe(), free_port()

    async def refused() -> bool:
        return await probe.is_refused(f"{host}:{port}")

    await eventually(refused)  # a lookup may take longer than one try


async def test_frozen_process_is_not_refused() -> None:
    """The kernel accepts connections for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not await PortProbe().is_refused(f"127.0.0.1:{server.getsockname()[1]}")


async def test_unknown_host_is_not_refused() -> None:
    assert not await PortProbe().is_refused("unknown.invalid:9090")


async def test_slow_host_lookup_runs_once_and_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up, answered = list[str](), Event()
    known = socket.getaddrinfo("127.0.0.1", None, type=socket.SOCK_STREAM)

    def slow(host: str, *_: Any, **__: Any) -> Any:
        looked_up.append(host)
        answered.wait(60.0)
        return known

    probe, port = PortProbe(), free_port()
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    monkeypatch.setattr(membership, "_PROBE_TIMEOUT", 0.05)
    assert not await probe.is_refused(f"slow.invalid:{port}")
    assert not await probe.is_refused(f"slow.invalid:{port}")
    assert looked_up == ["slow.invalid"]
    answered.set()
    await eventually(lambda: not probe._lookups)


async def test_leases_of_a_dead_broker_are_claimed_before_expiry(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await cluster.pass_time(3, first, second)
    assert first.held()
    cluster.refusing.add(first.member.address)
    await cluster.pass_time(4, second)
    assert second.held() == set(SHARDS)
    assert all(second.owned[shard] == 2 for shard in first.owned)
    assert second.holder.members == (second.member,)


async def test_broker_without_heartbeats_keeps_its_leases_while_it_listens(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await cluster.pass_time(3, first, second)
    kept = first.held()
    await cluster.pass_time(6, second)
    assert not second.held() & kept
    assert first.member in second.holder.members


async def test_an_import_has_no_port_and_its_announcement_expires(cluster: Cluster) -> None:
    node = cluster.node(1)
    importing = ClusterMember("2/1", 2, frozenset({IMPORTING}), "import")
    cluster.refusing.add(importing.address)
    await cluster.pass_time(2, node)
    await cluster.store.announce(importing, 5.0)
    await cluster.pass_time(4, node)
    assert not node.held(), "it may stand still for a while"
    await cluster.pass_time(3, node)
    assert node.held() == set(SHARDS)


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
    assert first.owned == {shard: epoch + 2 for shard, epoch in kept.items()}, (
        "another broker owned them in between"
    )


async def test_owner_of_a_dead_brokers_lease_is_the_successor(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await cluster.pass_time(3, first, second)
    looking = LeaseHolder(cluster.store, ClusterMember("3/1", 3, frozenset(), "node3:9090"), TTL)
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
    first.holder.membership.interval = 0.01
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
