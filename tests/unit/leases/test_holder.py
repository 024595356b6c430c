"""LeaseHolder: claims, renewals, losses and hand-overs, on a simulated clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
from structlog.testing import capture_logs

from sharebroker_server.leases import holder
from sharebroker_server.leases.holder import LeaseHolder, LeaseOwnership
from sharebroker_server.leases.placement import preferred
from sharebroker_server.leases.port import ClusterMember, Lease, LeaseLost, LeasesUnavailable
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.waiting import Turns, eventually
from tests.unit.leases.harness import ROLE, SHARDS, TTL, Cluster, share


async def test_single_broker_claims_everything(cluster: Cluster) -> None:
    node = cluster.node(1)
    await node.holder.start()
    assert node.held() == set(SHARDS)
    assert node.owned == dict.fromkeys(SHARDS, 1)


async def test_leases_are_kept_while_renewed(cluster: Cluster) -> None:
    node = cluster.node(1)
    await node.round()
    await cluster.pass_time(50, node)
    assert node.held() == set(SHARDS)
    assert [event for event, _ in node.events] == ["acquired"] * len(SHARDS)


async def test_new_broker_gets_its_share_without_double_ownership(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await first.round()
    await cluster.pass_time(3, second, first)
    assert first.held() | second.held() == set(SHARDS)
    assert not first.held() & second.held()
    assert second.held() == {
        shard for shard in SHARDS if share([first.member, second.member])[shard] == second.member
    }
    assert all(second.owned[shard] == 2 for shard in second.held())


async def test_pending_takeovers_are_read_in_one_request(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed: list[str] = []
    claim = cluster.store.claim

    async def counted(resource: str, owner: str, ttl: float, *, force: bool = False) -> Lease:
        claimed.append(resource)
        return await claim(resource, owner, ttl, force=force)

    first, second = cluster.node(1), cluster.node(2)
    await first.round()
    first.closing.clear()  # its hand-over is slow
    monkeypatch.setattr(cluster.store, "claim", counted)
    await cluster.pass_time(3, second, first)
    assert sorted(claimed) == sorted(set(claimed))
    assert not second.held()
    first.closing.set()
    await cluster.pass_time(2, first, second)
    assert second.held() == set(claimed)
    assert first.held() == set(SHARDS) - set(claimed)


async def test_stop_hands_over_at_once(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await first.round()
    await cluster.pass_time(3, second, first)
    await second.holder.stop()
    assert second.owned == {}
    await cluster.pass_time(1, first)
    assert first.held() == set(SHARDS)


async def test_leases_of_a_dead_broker_are_claimed_after_expiry(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await first.round()
    await cluster.pass_time(3, second, first)
    await cluster.pass_time(TTL + 1, first)
    assert second.held() == set()
    assert first.held() == set(SHARDS)


async def test_restarted_broker_claims_its_leases_at_once(cluster: Cluster) -> None:
    await cluster.node(1, incarnation=1).round()
    second = cluster.node(1, incarnation=2)
    await second.round()
    assert second.owned == dict.fromkeys(SHARDS, 2)


async def test_replaced_incarnation_detects_its_loss(cluster: Cluster) -> None:
    first = cluster.node(1, incarnation=1)
    await first.round()
    second = cluster.node(1, incarnation=2)
    await second.round()
    await cluster.pass_time(TTL / 3 + 1, first, second)
    assert first.held() == set()
    assert first.owned == {}
    assert second.held() == set(SHARDS)


async def test_leases_expire_here_during_an_outage_and_are_claimed_again(cluster: Cluster) -> None:
    node = cluster.node(1)
    await node.round()
    cluster.store.away = True
    await cluster.pass_time(TTL - 1, node)
    assert node.held() == set(SHARDS)
    cluster.now += 1.0
    assert node.held() == set()
    await node.round()
    assert node.owned == {}
    cluster.store.away = False
    await cluster.pass_time(1, node)
    assert node.owned == dict.fromkeys(SHARDS, 2)


async def test_partial_outage_loses_only_the_affected_leases(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, part = cluster.node(1), set(SHARDS[:5])
    await node.round()
    renew = cluster.store.renew

    async def partly(epochs: Mapping[str, int], owner: str, ttl: float) -> list[bool | None]:
        await renew(
            {resource: epoch for resource, epoch in epochs.items() if resource not in part}, owner, ttl
        )
        return [None if resource in part else True for resource in epochs]

    monkeypatch.setattr(cluster.store, "renew", partly)
    await cluster.pass_time(TTL - 1, node)
    assert node.held() == set(SHARDS)
    monkeypatch.setattr(node, "resources", SHARDS[5:])
    await cluster.pass_time(1, node)
    assert node.held() == set(SHARDS) - part
    assert node.owned == dict.fromkeys(SHARDS[5:], 1)


async def test_many_leases_are_renewed_and_compared_in_portions(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.node(1)
    await node.round()
    cluster.now += TTL / 2  # the next round renews, and compares
    with Turns() as together:
        await node.holder.reconcile()
    cluster.now += TTL / 2
    monkeypatch.setattr(holder, "LEASES_AT_ONCE", 2)
    with Turns() as divided:
        await node.holder.reconcile()
    assert divided.passed >= together.passed + len(SHARDS) // 2
    assert node.held() == set(SHARDS)


async def test_leases_move_although_they_are_compared_in_portions(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, "LEASES_AT_ONCE", 1)
    first, second = cluster.node(1), cluster.node(2)
    await first.round()
    await cluster.pass_time(3, second, first)
    assert first.held() | second.held() == set(SHARDS)
    assert not first.held() & second.held()
    assert second.held()


async def test_validity_counts_from_before_the_request(cluster: Cluster) -> None:
    node = cluster.node(1, resources=[])
    await node.round()
    claim = cluster.store.claim

    async def slow_claim(resource: str, owner: str, ttl: float, *, force: bool = False) -> object:
        lease = await claim(resource, owner, ttl, force=force)
        cluster.now += 6.0
        return lease

    cluster.store.claim = slow_claim  # type: ignore[assignment,method-assign] # a slow answer, nothing else
    await node.holder.acquire(SHARDS[0])
    cluster.now += 3.9
    assert node.holder.holds(SHARDS[0]) == 1
    cluster.now += 0.2
    assert node.holder.holds(SHARDS[0]) is None


async def test_acquire_claims_on_demand_once(cluster: Cluster) -> None:
    node = cluster.node(1, resources=[])
    await node.round()
    leases = await asyncio.gather(*[node.holder.acquire(SHARDS[0]) for _ in range(5)])
    assert {(lease.owner, lease.epoch) for lease in leases} == {("1/1", 1)}
    again = await node.holder.acquire(SHARDS[0])
    assert (again.owner, again.epoch, again.expires_in) == ("1/1", 1, TTL)
    assert node.events == [("acquired", SHARDS[0])]


async def test_acquire_after_expiry_runs_on_lost_before_on_acquired(cluster: Cluster) -> None:
    node = cluster.node(1, resources=[])
    await node.round()
    await node.holder.acquire(SHARDS[0])
    cluster.now += TTL
    await cluster.store.announce(node.member, TTL)
    await cluster.store.renew({SHARDS[0]: 1}, "1/1", TTL)  # the store may have another owner
    lease = await node.holder.acquire(SHARDS[0])
    assert (lease.owner, lease.epoch) == ("1/1", 2)
    assert [event for event, _ in node.events] == ["acquired", "lost", "acquired"]


async def test_acquire_before_the_first_round(cluster: Cluster) -> None:
    node = cluster.node(1, resources=[])
    await cluster.store.announce(node.member, TTL)
    assert (await node.holder.acquire(SHARDS[0])).owner == "1/1"


async def test_acquire_returns_the_preferred_owner(cluster: Cluster) -> None:
    first, second = cluster.node(1, resources=[]), cluster.node(2, resources=[])
    await cluster.pass_time(2, first, second)
    theirs = next(shard for shard in SHARDS if share([first.member, second.member])[shard] == second.member)
    lease = await first.holder.acquire(theirs)
    assert (lease.owner, lease.epoch) == ("2/1", 0)
    await second.holder.acquire(theirs)
    lease = await first.holder.acquire(theirs)
    assert (lease.owner, lease.epoch) == ("2/1", 1)


async def test_acquire_returns_the_current_owner(cluster: Cluster) -> None:
    await cluster.store.claim(SHARDS[0], "9/1", 5.0)
    node = cluster.node(1, resources=[])
    await node.round()
    assert (await node.holder.acquire(SHARDS[0])).owner == "9/1"
    assert node.holder.holds(SHARDS[0]) is None


async def test_acquire_of_a_kind_without_a_broker_returns_no_owner(cluster: Cluster) -> None:
    node = cluster.node(1)
    await node.round()
    lease = await node.holder.acquire("nothing:1")
    assert (lease.owner, lease.epoch) == ("", 0)


async def test_acquire_raises_during_an_outage(cluster: Cluster) -> None:
    node = cluster.node(1, resources=[])
    await node.round()
    cluster.store.away = True
    with pytest.raises(LeasesUnavailable):
        await node.holder.acquire(SHARDS[0])
    cluster.store.away = False
    assert (await node.holder.acquire(SHARDS[0])).owner == "1/1"


@pytest.mark.parametrize("away", [False, True])
async def test_lease_is_released_if_on_acquired_fails(cluster: Cluster, away: bool) -> None:
    node = cluster.node(1, resources=[])
    await node.round()
    node.fail_to_open = True

    async def go_away(resource: str, epoch: int) -> None:
        cluster.store.away = away
        await node.acquired(resource, epoch)

    node.holder.register(ROLE, list, ROLE, go_away, node.lost)
    with pytest.raises(RuntimeError, match="cannot open"):
        await node.holder.acquire(SHARDS[0])
    assert node.holder.holds(SHARDS[0]) is None
    cluster.store.away = False
    [lease] = await cluster.store.read([SHARDS[0]])
    assert (lease is not None) is away
    node.fail_to_open = False
    await node.round()
    assert (await node.holder.acquire(SHARDS[0])).owner == "1/1"


async def test_failed_claims_are_logged_once_a_minute_with_their_number(cluster: Cluster) -> None:
    node = cluster.node(1, resources=[])
    await node.round()
    node.fail_to_open = True
    with capture_logs() as lines:
        for seconds in (0, 59, 1):
            await cluster.pass_time(seconds, node)
            for shard in SHARDS[:3]:
                with pytest.raises(RuntimeError, match="cannot open"):
                    await node.holder.acquire(shard)
    failed = [line for line in lines if line["event"] == "lease claim failed"]
    assert [(line["resource"], line["error"], line["unlogged"]) for line in failed] == [
        (SHARDS[0], "cannot open", 0),
        (SHARDS[0], "cannot open", 5),
    ]


async def test_reclaim_increases_the_epoch(cluster: Cluster) -> None:
    node = cluster.node(1, resources=SHARDS[:1])
    await node.round()
    assert await node.holder.reclaim(SHARDS[0]) == 2
    assert node.holder.holds(SHARDS[0]) == 2
    assert node.events == [("acquired", SHARDS[0])]


async def test_reclaim_raises_if_another_broker_owns_the_lease(cluster: Cluster) -> None:
    node = cluster.node(1, resources=SHARDS[:1])
    await node.round()
    await cluster.store.claim(SHARDS[0], "1/2", TTL)
    with pytest.raises(LeaseLost):
        await node.holder.reclaim(SHARDS[0])
    await node.holder._executor.drain()
    assert node.owned == {}


async def test_reclaim_of_a_released_lease_frees_it_again(cluster: Cluster) -> None:
    node = cluster.node(1, resources=[])
    await node.round()
    with pytest.raises(LeaseLost):
        await node.holder.reclaim(SHARDS[0])
    assert await cluster.store.read([SHARDS[0]]) == [None]


async def test_renewal_keeps_the_epoch_of_a_concurrent_reclaim(cluster: Cluster) -> None:
    node = cluster.node(1, resources=SHARDS[:1])
    await node.round()
    renew = cluster.store.renew

    async def renew_slowly(epochs: Mapping[str, int], owner: str, ttl: float) -> list[bool]:
        kept = await renew(epochs, owner, ttl)
        await node.holder.reclaim(SHARDS[0])
        return kept

    cluster.store.renew = renew_slowly  # type: ignore[method-assign] # a race on demand
    await cluster.pass_time(4, node)
    assert node.holder.holds(SHARDS[0]) == 2


async def test_own_late_claim_is_repaired_by_a_reclaim(cluster: Cluster) -> None:
    """Redis freezes, we reconnect and claim again; then Redis reads the command of the first connection."""
    node = cluster.node(1, resources=SHARDS[:1])
    await node.round()
    await cluster.store.claim(SHARDS[0], "1/1", TTL, force=True)
    await cluster.pass_time(5, node)
    assert node.holder.holds(SHARDS[0]) == cluster.store.epoch_of(SHARDS[0])
    assert node.events == [("acquired", SHARDS[0]), ("lost", SHARDS[0]), ("acquired", SHARDS[0])]


async def test_hand_over_completes_work_before_the_release(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await first.round()
    first.closing.clear()
    await second.round()
    await first.round()
    await cluster.pass_time(TTL, first, second)  # still closing, still renewed
    assert first.held() == set(SHARDS)
    assert second.held() == set()
    first.closing.set()
    await first.holder._executor.drain()
    await second.round()
    assert first.held() | second.held() == set(SHARDS)
    assert len(second.held()) > 0


async def test_a_lease_that_was_busy_moves_in_the_round_after(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await first.round()
    busy = next(shard for shard, owner in share([first.member, second.member]).items() if owner.node_id == 2)
    step = asyncio.Event()
    first.holder._executor.submit(busy, _until(step))
    await second.round()
    await first.holder._try_reconcile()
    step.set()
    await first.holder._executor.drain()
    assert busy in first.held()
    await first.round()  # at the same time: no renewal is due, which would also compare all leases
    assert busy not in first.held()


async def _until(step: asyncio.Event) -> None:
    await step.wait()


async def test_expiry_during_hand_over_runs_on_lost_once(cluster: Cluster) -> None:
    first, second = cluster.node(1), cluster.node(2)
    await first.round()
    first.closing.clear()
    await second.round()
    await first.round()
    cluster.store.away = True
    await cluster.pass_time(TTL, first)
    first.closing.set()
    await first.holder._executor.drain()
    assert first.owned == {}
    assert len([event for event, _ in first.events if event == "lost"]) == len(SHARDS)


async def test_expiry_before_hand_over_runs_on_lost_once(cluster: Cluster) -> None:
    node = cluster.node(1, resources=SHARDS[:1])
    await node.round()
    node.holder._lose(SHARDS[0])
    node.holder._executor.submit(SHARDS[0], node.holder._hand_over(SHARDS[0]))
    await node.holder._executor.drain()
    assert node.events == [("acquired", SHARDS[0]), ("lost", SHARDS[0])]


async def test_lease_is_released_if_on_lost_fails(cluster: Cluster) -> None:
    node = cluster.node(1, resources=SHARDS[:1])
    await node.round()
    node.owned.clear()  # closing raises KeyError
    with capture_logs() as lines:
        await node.holder.stop()
    assert await cluster.store.read(SHARDS[:1]) == [None]
    assert [(line["event"], line["resource"]) for line in lines] == [
        ("closing a lost resource failed", SHARDS[0])
    ]


async def test_stop_during_an_outage_runs_on_lost(cluster: Cluster) -> None:
    node = cluster.node(1)
    await node.round()
    cluster.store.away = True
    await node.holder.stop()
    assert node.owned == {}


async def test_nothing_is_acquired_after_the_stop(cluster: Cluster) -> None:
    node = cluster.node(1, resources=[])
    await node.round()
    await node.holder.stop()
    assert (await node.holder.acquire(SHARDS[0])).epoch == 0


async def test_new_incarnation_owns_leases_of_its_former_process(cluster: Cluster) -> None:
    caller, first = cluster.node(2, resources=()), cluster.node(1, resources=())
    mine = next(s for s in SHARDS if preferred(s, ROLE, [caller.member, first.member]) == first.member)
    for node in (first, caller, first):
        await node.round()
    await first.holder.acquire(mine)
    assert await caller.holder.owner_of(mine) == first.member
    second = cluster.node(1, incarnation=2, resources=())
    await second.round()
    await caller.round()
    assert await caller.holder.owner_of(mine) == second.member
    assert (await second.holder.acquire(mine)).owner == second.member.owner


async def test_drop_ends_the_work_and_deletes_the_lease(cluster: Cluster) -> None:
    node = cluster.node(1, resources=())
    await node.round()
    await node.holder.acquire(SHARDS[0])
    for _ in range(2):
        await node.holder.drop(SHARDS[0])
        assert node.held() == set()
        assert node.events == [("acquired", SHARDS[0]), ("lost", SHARDS[0])]
    assert (await node.holder.acquire(SHARDS[0])).epoch == 1


async def test_owner_of_is_cached_until_forget(cluster: Cluster) -> None:
    node, caller = cluster.node(1, resources=SHARDS[:1]), cluster.node(2, resources=[])
    assert await caller.holder.owner_of(SHARDS[0]) is None
    await cluster.store.claim(SHARDS[0], node.member.owner, TTL)
    await cluster.store.announce(node.member, TTL)
    assert await caller.holder.owner_of(SHARDS[0]) == node.member
    await cluster.store.release(SHARDS[0], node.member.owner)
    await cluster.store.withdraw(node.member.owner)
    assert await caller.holder.owner_of(SHARDS[0]) == node.member
    caller.holder.forget(SHARDS[0])
    await caller.round()
    assert await caller.holder.owner_of(SHARDS[0]) == caller.member


async def test_cached_owners_that_left_are_removed(cluster: Cluster) -> None:
    node, caller = cluster.node(1, resources=SHARDS[:1]), cluster.node(2, resources=[])
    await node.round()
    await caller.round()
    assert await caller.holder.owner_of(SHARDS[0]) == node.member
    await node.holder.stop()
    await caller.round()
    assert await caller.holder.owner_of(SHARDS[0]) == caller.member


async def test_owner_without_an_announcement_is_unknown(cluster: Cluster) -> None:
    caller = cluster.node(2, resources=[])
    await caller.round()
    await cluster.store.claim(SHARDS[0], "9/9", TTL)
    assert await caller.holder.owner_of(SHARDS[0]) is None


async def test_outage_is_logged_once_a_minute_and_at_its_end(cluster: Cluster) -> None:
    node = cluster.node(1)
    await node.round()
    with capture_logs() as lines:
        cluster.store.away = True
        await cluster.pass_time(130, node)
        for shard in SHARDS:  # calls that need the leases claim them
            with pytest.raises(LeasesUnavailable):
                await node.holder.acquire(shard)
        cluster.store.away = False
        await cluster.pass_time(2, node)
    assert [(line["event"], line["log_level"], line.get("seconds")) for line in lines] == [
        ("lease renewal failing", "warning", 0.0),
        ("leases expired before renewal", "warning", None),
        ("lease renewal failing", "warning", 60.0),
        ("lease renewal failing", "warning", 120.0),
        ("lease renewal recovered", "warning", 130.0),
    ]
    assert (lines[1]["leases"], lines[1]["first"]) == (20, sorted(SHARDS)[:3])
    assert lines[0]["reason"]
    assert node.held() == set(SHARDS)


async def test_flapping_store_does_not_flood_the_log(cluster: Cluster) -> None:
    node = cluster.node(1)
    await node.round()
    with capture_logs() as lines:
        for _ in range(40):
            cluster.store.away = not cluster.store.away
            await cluster.pass_time(1, node)
    assert [line["event"] for line in lines] == ["lease renewal failing", "lease renewal recovered"]


async def test_unexpected_failure_of_a_round_is_logged_and_retried(cluster: Cluster) -> None:
    node = cluster.node(1)

    def broken() -> list[str]:
        raise RuntimeError("no list today")

    node.holder.register("catalog", broken, ROLE, node.acquired, node.lost)
    with capture_logs() as lines:
        await node.round()
    assert [line["event"] for line in lines] == ["lease reconciliation failed"]
    node.holder.register("catalog", list, ROLE, node.acquired, node.lost)
    await node.round()
    assert node.held() == set(SHARDS)


async def test_started_holder_keeps_its_leases() -> None:
    store = MemoryLeaseStore()
    events: list[str] = []

    def record(event: str) -> Callable[..., object]:
        async def callback(resource: str, *epoch: int) -> None:
            events.append(event)

        return callback

    holder = LeaseHolder(store, ClusterMember("1/1", 1, frozenset({ROLE}), ""), ttl=0.1)
    holder.register(ROLE, lambda: SHARDS[:1], ROLE, record("acquired"), record("lost"))  # type: ignore[arg-type] # one maker for both callbacks
    await holder.start()
    assert holder.holds(SHARDS[0]) == 1
    await store.claim(SHARDS[0], "1/2", 60.0)
    await eventually(lambda: events == ["acquired", "lost"])
    await store.release(SHARDS[0], "1/2")
    await eventually(lambda: holder.holds(SHARDS[0]) == 3)
    await holder.stop()
    assert events == ["acquired", "lost", "acquired", "lost"]


async def test_ownership_follows_the_epoch_of_the_lease(cluster: Cluster) -> None:
    node = cluster.node(1)
    await node.round()
    lease = LeaseOwnership(node.holder, SHARDS[0])
    assert lease.holds(1)
    assert await lease.reclaim() == 2
    assert (lease.holds(1), lease.holds(2)) == (False, True)
