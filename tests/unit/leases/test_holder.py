"""The holder of a process: what it claims, keeps, loses and hands over, on a clock the test turns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import pytest
from structlog.testing import capture_logs

from sharebroker_server.leases import names
from sharebroker_server.leases.failure_detector import Deaths
from sharebroker_server.leases.holder import LeaseHolder, LeaseLost
from sharebroker_server.leases.memory import MemoryLeaseStore
from sharebroker_server.leases.port import Lease, LeasesUnavailable, Member
from sharebroker_server.leases.rules import preferred, spread
from sharebroker_server.testkit.waiting import eventually

ROLE = "share-coordinator"
SHARDS = [f"{ROLE}:{index}" for index in range(20)]
TTL = 10.0


def share(members: list[Member]) -> dict[str, Member]:
    """Who is to own which shard."""
    return spread(sorted(SHARDS), ROLE, members)


class World:
    """A store and a clock that all nodes of a test share."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.store = MemoryLeaseStore(lambda: self.now)
        self.nodes: list[Node] = []
        self.nobody_listens: set[str] = set()

    async def refused(self, address: str) -> bool:
        return address in self.nobody_listens

    def node(self, node_id: int, incarnation: int = 1, resources: Iterable[str] = SHARDS) -> Node:
        node = Node(self, node_id, incarnation, list(resources))
        self.nodes.append(node)
        return node

    async def pass_time(self, seconds: float, *nodes: Node) -> None:
        """Turn the clock in steps of a second; the given nodes take their turns."""
        for _ in range(round(seconds)):
            self.now += 1.0
            for node in nodes:
                await node.turn()


class Node:
    """A process: its holder, and what the holder told it."""

    def __init__(self, world: World, node_id: int, incarnation: int, resources: list[str]) -> None:
        self.member = Member(f"{node_id}/{incarnation}", node_id, frozenset({ROLE}), f"node{node_id}:9090")
        deaths = Deaths(world.store, TTL, world.refused)
        self.holder = LeaseHolder(world.store, self.member, TTL, clock=lambda: world.now, deaths=deaths)
        self.owned: dict[str, int] = {}
        self.story: list[tuple[str, str]] = []
        self.resources = resources
        self.fail_to_open = False
        self.closing = asyncio.Event()
        self.closing.set()
        self.holder.watch(ROLE, lambda: self.resources, ROLE, self.acquired, self.lost)

    async def acquired(self, resource: str, epoch: int) -> None:
        if self.fail_to_open:
            raise RuntimeError("cannot open")
        assert resource not in self.owned
        self.owned[resource] = epoch
        self.story.append(("acquired", resource))

    async def lost(self, resource: str) -> None:
        await self.closing.wait()
        del self.owned[resource]
        self.story.append(("lost", resource))

    async def turn(self) -> None:
        """One round, as the loop would make it, and everything it sets off."""
        await self.holder._try_round()
        if self.holder._search is not None:
            await self.holder._search
        if self.closing.is_set():
            await self.holder._steps.settle()

    def held(self) -> set[str]:
        return {resource for resource in SHARDS if self.holder.holds(resource) is not None}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    world.store.away = False
    for node in world.nodes:
        node.closing.set()
        await node.holder.stop()


async def test_a_lone_node_owns_everything(world: World) -> None:
    node = world.node(1)
    await node.holder.start()
    assert node.held() == set(SHARDS)
    assert node.owned == dict.fromkeys(SHARDS, 1)


async def test_leases_are_kept_while_renewed(world: World) -> None:
    node = world.node(1)
    await node.turn()
    await world.pass_time(50, node)
    assert node.held() == set(SHARDS)
    assert [event for event, _ in node.story] == ["acquired"] * len(SHARDS)


async def test_a_newcomer_is_handed_its_share_and_nothing_is_owned_twice(world: World) -> None:
    first, second = world.node(1), world.node(2)
    await first.turn()
    await world.pass_time(3, second, first)
    assert first.held() | second.held() == set(SHARDS)
    assert not first.held() & second.held()
    assert second.held() == {
        shard for shard in SHARDS if share([first.member, second.member])[shard] == second.member
    }
    assert all(second.owned[shard] == 2 for shard in second.held())


async def test_who_waits_for_leases_asks_for_all_of_them_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed: list[str] = []
    claim = world.store.claim

    async def counted(resource: str, owner: str, ttl: float, *, force: bool = False) -> Lease:
        claimed.append(resource)
        return await claim(resource, owner, ttl, force=force)

    first, second = world.node(1), world.node(2)
    await first.turn()
    first.closing.clear()  # it takes its time over handing over
    monkeypatch.setattr(world.store, "claim", counted)
    await world.pass_time(3, second, first)
    assert sorted(claimed) == sorted(set(claimed))
    assert not second.held()
    first.closing.set()
    await world.pass_time(2, first, second)
    assert second.held() == set(claimed)
    assert first.held() == set(SHARDS) - set(claimed)


async def test_who_stops_hands_over_at_once(world: World) -> None:
    first, second = world.node(1), world.node(2)
    await first.turn()
    await world.pass_time(3, second, first)
    await second.holder.stop()
    assert second.owned == {}
    await world.pass_time(1, first)
    assert first.held() == set(SHARDS)


async def test_who_dies_is_followed_when_its_leases_run_out(world: World) -> None:
    first, second = world.node(1), world.node(2)
    await first.turn()
    await world.pass_time(3, second, first)
    await world.pass_time(TTL + 1, first)
    assert second.held() == set()
    assert first.held() == set(SHARDS)


async def test_a_restarted_node_takes_its_own_leases_back_at_once(world: World) -> None:
    await world.node(1, incarnation=1).turn()
    second = world.node(1, incarnation=2)
    await second.turn()
    assert second.owned == dict.fromkeys(SHARDS, 2)


async def test_the_replaced_incarnation_learns_that_it_lost(world: World) -> None:
    first = world.node(1, incarnation=1)
    await first.turn()
    second = world.node(1, incarnation=2)
    await second.turn()
    await world.pass_time(TTL / 3 + 1, first, second)
    assert first.held() == set()
    assert first.owned == {}
    assert second.held() == set(SHARDS)


async def test_leases_end_here_when_the_store_is_away_too_long_and_come_back(world: World) -> None:
    node = world.node(1)
    await node.turn()
    world.store.away = True
    await world.pass_time(TTL - 1, node)
    assert node.held() == set(SHARDS)
    world.now += 1.0
    assert node.held() == set()
    await node.turn()
    assert node.owned == {}
    world.store.away = False
    await world.pass_time(1, node)
    assert node.owned == dict.fromkeys(SHARDS, 2)


async def test_a_part_of_the_store_that_is_away_costs_what_it_keeps_and_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, part = world.node(1), set(SHARDS[:5])
    await node.turn()
    renew = world.store.renew

    async def partly(epochs: Mapping[str, int], owner: str, ttl: float) -> list[bool | None]:
        await renew(
            {resource: epoch for resource, epoch in epochs.items() if resource not in part}, owner, ttl
        )
        return [None if resource in part else True for resource in epochs]

    monkeypatch.setattr(world.store, "renew", partly)
    await world.pass_time(TTL - 1, node)
    assert node.held() == set(SHARDS)
    monkeypatch.setattr(node, "resources", SHARDS[5:])
    await world.pass_time(1, node)
    assert node.held() == set(SHARDS) - part
    assert node.owned == dict.fromkeys(SHARDS[5:], 1)


async def test_validity_counts_from_before_the_request(world: World) -> None:
    node = world.node(1, resources=[])
    await node.turn()
    claim = world.store.claim

    async def slow_claim(resource: str, owner: str, ttl: float, *, force: bool = False) -> object:
        lease = await claim(resource, owner, ttl, force=force)
        world.now += 6.0
        return lease

    world.store.claim = slow_claim  # type: ignore[assignment,method-assign] # a slow answer, nothing else
    await node.holder.acquire(SHARDS[0])
    world.now += 3.9
    assert node.holder.holds(SHARDS[0]) == 1
    world.now += 0.2
    assert node.holder.holds(SHARDS[0]) is None


async def test_acquire_claims_on_demand_once(world: World) -> None:
    node = world.node(1, resources=[])
    await node.turn()
    leases = await asyncio.gather(*[node.holder.acquire(SHARDS[0]) for _ in range(5)])
    assert {(lease.owner, lease.epoch) for lease in leases} == {("1/1", 1)}
    again = await node.holder.acquire(SHARDS[0])
    assert (again.owner, again.epoch, again.expires_in) == ("1/1", 1, TTL)
    assert node.story == [("acquired", SHARDS[0])]


async def test_acquire_after_a_local_expiry_closes_before_it_opens_again(world: World) -> None:
    node = world.node(1, resources=[])
    await node.turn()
    await node.holder.acquire(SHARDS[0])
    world.now += TTL
    await world.store.announce(node.member, TTL)
    await world.store.renew({SHARDS[0]: 1}, "1/1", TTL)  # the store may think otherwise
    lease = await node.holder.acquire(SHARDS[0])
    assert (lease.owner, lease.epoch) == ("1/1", 2)
    assert [event for event, _ in node.story] == ["acquired", "lost", "acquired"]


async def test_acquire_works_before_the_first_round_has_been(world: World) -> None:
    node = world.node(1, resources=[])
    await world.store.announce(node.member, TTL)
    assert (await node.holder.acquire(SHARDS[0])).owner == "1/1"


async def test_acquire_names_who_should_own_it(world: World) -> None:
    first, second = world.node(1, resources=[]), world.node(2, resources=[])
    await world.pass_time(2, first, second)
    theirs = next(shard for shard in SHARDS if share([first.member, second.member])[shard] == second.member)
    lease = await first.holder.acquire(theirs)
    assert (lease.owner, lease.epoch) == ("2/1", 0)
    await second.holder.acquire(theirs)
    lease = await first.holder.acquire(theirs)
    assert (lease.owner, lease.epoch) == ("2/1", 1)


async def test_acquire_names_who_still_holds_what_should_be_ours(world: World) -> None:
    await world.store.claim(SHARDS[0], "9/1", 5.0)
    node = world.node(1, resources=[])
    await node.turn()
    assert (await node.holder.acquire(SHARDS[0])).owner == "9/1"
    assert node.holder.holds(SHARDS[0]) is None


async def test_acquire_of_a_kind_nobody_serves_names_nobody(world: World) -> None:
    node = world.node(1)
    await node.turn()
    lease = await node.holder.acquire("nothing:1")
    assert (lease.owner, lease.epoch) == ("", 0)


async def test_acquire_says_when_the_store_is_away(world: World) -> None:
    node = world.node(1, resources=[])
    await node.turn()
    world.store.away = True
    with pytest.raises(LeasesUnavailable):
        await node.holder.acquire(SHARDS[0])
    world.store.away = False
    assert (await node.holder.acquire(SHARDS[0])).owner == "1/1"


@pytest.mark.parametrize("away", [False, True])
async def test_a_resource_that_does_not_open_is_given_back(world: World, away: bool) -> None:
    node = world.node(1, resources=[])
    await node.turn()
    node.fail_to_open = True

    async def go_away(resource: str, epoch: int) -> None:
        world.store.away = away
        await node.acquired(resource, epoch)

    node.holder.watch(ROLE, list, ROLE, go_away, node.lost)
    with pytest.raises(RuntimeError, match="cannot open"):
        await node.holder.acquire(SHARDS[0])
    assert node.holder.holds(SHARDS[0]) is None
    world.store.away = False
    [lease] = await world.store.read([SHARDS[0]])
    assert (lease is not None) is away
    node.fail_to_open = False
    await node.turn()
    assert (await node.holder.acquire(SHARDS[0])).owner == "1/1"


async def test_reclaim_raises_our_epoch(world: World) -> None:
    node = world.node(1, resources=SHARDS[:1])
    await node.turn()
    assert await node.holder.reclaim(SHARDS[0]) == 2
    assert node.holder.holds(SHARDS[0]) == 2
    assert node.story == [("acquired", SHARDS[0])]


async def test_reclaim_tells_when_another_has_it(world: World) -> None:
    node = world.node(1, resources=SHARDS[:1])
    await node.turn()
    await world.store.claim(SHARDS[0], "1/2", TTL)
    with pytest.raises(LeaseLost):
        await node.holder.reclaim(SHARDS[0])
    await node.holder._steps.settle()
    assert node.owned == {}


async def test_reclaim_of_what_we_gave_up_frees_it_again(world: World) -> None:
    node = world.node(1, resources=[])
    await node.turn()
    with pytest.raises(LeaseLost):
        await node.holder.reclaim(SHARDS[0])
    assert await world.store.read([SHARDS[0]]) == [None]


async def test_a_renewal_does_not_undo_a_reclaim_made_meanwhile(world: World) -> None:
    node = world.node(1, resources=SHARDS[:1])
    await node.turn()
    renew = world.store.renew

    async def renew_slowly(epochs: Mapping[str, int], owner: str, ttl: float) -> list[bool]:
        kept = await renew(epochs, owner, ttl)
        await node.holder.reclaim(SHARDS[0])
        return kept

    world.store.renew = renew_slowly  # type: ignore[method-assign] # a race on demand
    await world.pass_time(4, node)
    assert node.holder.holds(SHARDS[0]) == 2


async def test_a_claim_of_ours_that_is_done_late_does_not_fence_us_for_ever(world: World) -> None:
    """Redis stands still, we connect and claim anew; then it reads what the first connection had sent."""
    node = world.node(1, resources=SHARDS[:1])
    await node.turn()
    await world.store.claim(SHARDS[0], "1/1", TTL, force=True)
    await world.pass_time(5, node)
    assert node.holder.holds(SHARDS[0]) == world.store.epoch_of(SHARDS[0])
    assert node.story == [("acquired", SHARDS[0]), ("lost", SHARDS[0]), ("acquired", SHARDS[0])]


async def test_what_is_handed_over_is_finished_under_the_lease_first(world: World) -> None:
    first, second = world.node(1), world.node(2)
    await first.turn()
    first.closing.clear()
    await second.turn()
    await first.turn()
    await world.pass_time(TTL, first, second)  # still closing, still renewed
    assert first.held() == set(SHARDS)
    assert second.held() == set()
    first.closing.set()
    await first.holder._steps.settle()
    await second.turn()
    assert first.held() | second.held() == set(SHARDS)
    assert len(second.held()) > 0


async def test_what_expires_while_it_is_handed_over_is_closed_once(world: World) -> None:
    first, second = world.node(1), world.node(2)
    await first.turn()
    first.closing.clear()
    await second.turn()
    await first.turn()
    world.store.away = True
    await world.pass_time(TTL, first)
    first.closing.set()
    await first.holder._steps.settle()
    assert first.owned == {}
    assert len([event for event, _ in first.story if event == "lost"]) == len(SHARDS)


async def test_what_expires_before_its_hand_over_began_is_closed_once(world: World) -> None:
    node = world.node(1, resources=SHARDS[:1])
    await node.turn()
    node.holder._lose(SHARDS[0])
    node.holder._steps.add(SHARDS[0], node.holder._hand_over(SHARDS[0]))
    await node.holder._steps.settle()
    assert node.story == [("acquired", SHARDS[0]), ("lost", SHARDS[0])]


async def test_a_resource_that_does_not_close_cleanly_is_let_go(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    node = world.node(1, resources=SHARDS[:1])
    await node.turn()
    node.owned.clear()  # closing raises KeyError
    await node.holder.stop()
    assert await world.store.read(SHARDS[:1]) == [None]
    assert "giving up share-coordinator:0 failed" in caplog.text


async def test_stopping_while_the_store_is_away_still_closes(world: World) -> None:
    node = world.node(1)
    await node.turn()
    world.store.away = True
    await node.holder.stop()
    assert node.owned == {}


async def test_nothing_is_acquired_after_the_stop(world: World) -> None:
    node = world.node(1, resources=[])
    await node.turn()
    await node.holder.stop()
    assert (await node.holder.acquire(SHARDS[0])).epoch == 0


async def test_who_came_back_owns_what_its_earlier_self_claimed(world: World) -> None:
    caller, first = world.node(2, resources=()), world.node(1, resources=())
    mine = next(s for s in SHARDS if preferred(s, ROLE, [caller.member, first.member]) == first.member)
    for node in (first, caller, first):
        await node.turn()
    await first.holder.acquire(mine)
    assert await caller.holder.owner_of(mine) == first.member
    second = world.node(1, incarnation=2, resources=())
    await second.turn()
    await caller.turn()
    assert await caller.holder.owner_of(mine) == second.member
    assert (await second.holder.acquire(mine)).owner == second.member.owner


async def test_what_is_dropped_ends_and_is_forgotten(world: World) -> None:
    node = world.node(1, resources=())
    await node.turn()
    await node.holder.acquire(SHARDS[0])
    for _ in range(2):
        await node.holder.drop(SHARDS[0])
        assert node.held() == set()
        assert node.story == [("acquired", SHARDS[0]), ("lost", SHARDS[0])]
    assert (await node.holder.acquire(SHARDS[0])).epoch == 1


async def test_owner_of_is_remembered_until_forgotten(world: World) -> None:
    node, caller = world.node(1, resources=SHARDS[:1]), world.node(2, resources=[])
    assert await caller.holder.owner_of(SHARDS[0]) is None
    await world.store.claim(SHARDS[0], node.member.owner, TTL)
    await world.store.announce(node.member, TTL)
    assert await caller.holder.owner_of(SHARDS[0]) == node.member
    await world.store.release(SHARDS[0], node.member.owner)
    await world.store.withdraw(node.member.owner)
    assert await caller.holder.owner_of(SHARDS[0]) == node.member
    caller.holder.forget(SHARDS[0])
    await caller.turn()
    assert await caller.holder.owner_of(SHARDS[0]) == caller.member


async def test_partitions_of_a_topic_are_spread_evenly_also_when_there_are_more(world: World) -> None:
    sizes = {"t": 6}
    holders = []
    for number in (1, 2, 3):
        member = Member(f"{number}/1", number, frozenset({"share-partition-leader"}), f"node{number}:9090")
        await world.store.announce(member, TTL)
        holders.append(LeaseHolder(world.store, member, TTL, partitions=lambda topic: sizes.get(topic, 0)))
    for holder in holders:
        await holder._refresh_members()

    def owners(topic: str, count: int) -> list[int]:
        said = []
        for index in range(count):
            [owner] = {holder._preferred(names.partition(topic, index)) for holder in holders}
            assert owner is not None
            said.append(owner.node_id)
        return said

    assert sorted(Counter(owners("t", 6)).values()) == [2, 2, 2]
    sizes["t"] = 9
    assert sorted(Counter(owners("t", 9)).values()) == [3, 3, 3]
    assert set(owners("a topic that nobody knows", 50)) == {1, 2, 3}


async def test_owners_that_left_are_forgotten(world: World) -> None:
    node, caller = world.node(1, resources=SHARDS[:1]), world.node(2, resources=[])
    await node.turn()
    await caller.turn()
    assert await caller.holder.owner_of(SHARDS[0]) == node.member
    await node.holder.stop()
    await caller.turn()
    assert await caller.holder.owner_of(SHARDS[0]) == caller.member


async def test_the_holder_of_a_lease_that_is_not_announced_is_unknown(world: World) -> None:
    caller = world.node(2, resources=[])
    await caller.turn()
    await world.store.claim(SHARDS[0], "9/9", TTL)
    assert await caller.holder.owner_of(SHARDS[0]) is None


async def test_kinds_without_a_watch_are_owned_by_their_role(world: World) -> None:
    node = world.node(1)
    gateway = LeaseHolder(world.store, Member("5/1", 5, frozenset({"gateway"}), ""), clock=lambda: world.now)
    await node.turn()
    await gateway.round()
    assert await gateway.owner_of("share-coordinator:77") == node.member
    assert await gateway.owner_of("partition:t:0") is None


async def test_a_store_that_is_away_is_told_once_a_minute_and_when_it_is_back(world: World) -> None:
    node = world.node(1)
    await node.turn()
    with capture_logs() as told:
        world.store.away = True
        await world.pass_time(130, node)
        for shard in SHARDS:  # calls that need the leases claim them
            with pytest.raises(LeasesUnavailable):
                await node.holder.acquire(shard)
        world.store.away = False
        await world.pass_time(2, node)
    assert [(line["event"], line["log_level"], line.get("seconds")) for line in told] == [
        ("leases cannot be renewed", "warning", 0.0),
        ("leases ran out before they could be renewed", "warning", None),
        ("leases cannot be renewed", "warning", 60.0),
        ("leases cannot be renewed", "warning", 120.0),
        ("leases can be renewed again", "warning", 130.0),
    ]
    assert (told[1]["leases"], told[1]["some"]) == (20, sorted(SHARDS)[:3])
    assert told[0]["reason"]
    assert node.held() == set(SHARDS)


async def test_a_store_that_comes_and_goes_does_not_flood_the_log(world: World) -> None:
    node = world.node(1)
    await node.turn()
    with capture_logs() as told:
        for _ in range(40):
            world.store.away = not world.store.away
            await world.pass_time(1, node)
    assert [line["event"] for line in told] == ["leases cannot be renewed", "leases can be renewed again"]


async def test_a_round_that_fails_unexpectedly_is_logged_and_made_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    node = world.node(1)

    def broken() -> list[str]:
        raise RuntimeError("no list today")

    node.holder.watch("catalog", broken, ROLE, node.acquired, node.lost)
    await node.turn()
    assert "a round of leases failed" in caplog.text
    node.holder.watch("catalog", list, ROLE, node.acquired, node.lost)
    await node.turn()
    assert node.held() == set(SHARDS)


async def test_the_loop_keeps_the_leases_of_a_started_holder() -> None:
    store = MemoryLeaseStore()
    events: list[str] = []

    def record(event: str) -> Callable[..., object]:
        async def callback(resource: str, *epoch: int) -> None:
            events.append(event)

        return callback

    holder = LeaseHolder(store, Member("1/1", 1, frozenset({ROLE}), ""), ttl=0.1)
    holder.watch(ROLE, lambda: SHARDS[:1], ROLE, record("acquired"), record("lost"))  # type: ignore[arg-type] # one maker for both callbacks
    await holder.start()
    assert holder.holds(SHARDS[0]) == 1
    await store.claim(SHARDS[0], "1/2", 60.0)
    await eventually(lambda: events == ["acquired", "lost"])
    await store.release(SHARDS[0], "1/2")
    await eventually(lambda: holder.holds(SHARDS[0]) == 3)
    await holder.stop()
    assert events == ["acquired", "lost", "acquired", "lost"]


async def test_who_died_is_followed_before_its_leases_run_out(world: World) -> None:
    first, second = world.node(1), world.node(2)
    await world.pass_time(3, first, second)
    assert first.held()
    world.nobody_listens.add(first.member.address)
    await world.pass_time(4, second)
    assert second.held() == set(SHARDS)
    assert all(second.owned[shard] == 2 for shard in first.owned)
    assert second.holder.members == (second.member,)


async def test_who_is_silent_and_listens_keeps_its_leases_until_they_run_out(world: World) -> None:
    first, second = world.node(1), world.node(2)
    await world.pass_time(3, first, second)
    kept = first.held()
    await world.pass_time(6, second)
    assert not second.held() & kept
    assert first.member in second.holder.members


async def test_who_announces_itself_is_alive_whatever_its_address_says(world: World) -> None:
    first, second = world.node(1), world.node(2)
    await world.pass_time(3, first, second)
    kept = dict(first.owned)
    world.nobody_listens.add(first.member.address)
    await world.pass_time(6, first, second)
    assert kept
    assert first.owned == kept


async def test_who_was_taken_for_dead_gives_up_and_claims_its_share_anew(world: World) -> None:
    first, second = world.node(1), world.node(2)
    await world.pass_time(3, first, second)
    kept = dict(first.owned)
    first.story.clear()
    world.nobody_listens.add(first.member.address)
    await world.pass_time(4, second)
    world.nobody_listens.clear()
    await world.pass_time(3, first, second)
    assert {shard for event, shard in first.story if event == "lost"} == set(kept)
    assert first.owned == {shard: epoch + 2 for shard, epoch in kept.items()}, "another had them meanwhile"


async def test_the_owner_of_what_a_dead_process_held_is_its_heir(world: World) -> None:
    first, second = world.node(1), world.node(2)
    await world.pass_time(3, first, second)
    looking = LeaseHolder(world.store, Member("3/1", 3, frozenset(), "node3:9090"), TTL)
    shard = min(first.held())
    assert await looking.owner_of(shard) == first.member
    await world.store.depose(first.member, TTL + 5.0, 0.0)
    looking.forget(shard)
    await looking.round()
    assert await looking.owner_of(shard) == second.member


async def test_others_know_of_a_leave_before_anything_is_handed_over(world: World) -> None:
    first, second = world.node(1), world.node(2)
    await first.holder.start()
    await second.turn()
    await first.turn()
    await first.holder._steps.settle()
    kept = first.held()
    await first.holder.give_notice()
    await first.turn()
    assert first.held() == kept, "it serves on"
    await second.turn()
    [leaving, _] = second.holder.members
    assert leaving.leaving
    assert await second.holder.owner_of(min(kept)) == leaving
    await first.holder.stop()
    await second.turn()
    assert second.held() == set(SHARDS)
