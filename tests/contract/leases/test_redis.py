"""The guarantees of every lease store: the store in memory, and Redis on each available server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from unittest.mock import Mock, patch

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.clock import now as wall_clock
from sharebroker_server.leases.port import ClusterMember, Lease, LeaseStore
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.links import connect
from sharebroker_server.redis_link.port import Link
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.servers import kinds
from tests.testkit.shared_servers import CLUSTER, Servers

A = "share-coordinator:1"
B = "share-coordinator:2"


@dataclass
class Stage:
    """A store, and a way to expire a lease or an announcement of 60 s."""

    store: LeaseStore
    expire: Callable[[], Awaitable[None]]


@pytest.fixture(params=["memory", *kinds(), CLUSTER])
async def stage(request: pytest.FixtureRequest, redis_servers: Servers) -> AsyncIterator[Stage]:
    if request.param == "memory":
        now = [1000.0]

        async def pass_a_minute() -> None:
            now[0] += 60.0

        yield Stage(MemoryLeaseStore(lambda: now[0]), pass_a_minute)
        return
    link = await connect(redis_servers.fresh(request.param))
    yield Stage(RedisLeaseStore(link), lambda: _age(link))
    await link.close()


async def _age(link: Link) -> None:
    """Expires everything: Redis's clock cannot be changed, the stored times can."""
    for resource in (A, B):
        if await link.call("HGET", Keys().lease(resource), "expires_ms", timeout=5.0) is not None:
            await link.call("HSET", Keys().lease(resource), "expires_ms", 1, timeout=5.0)
    members = await link.call("HGETALL", Keys().members(), timeout=5.0)
    for node, value in zip(members[::2], members[1::2], strict=True):
        aged = b"1 " + value.partition(b" ")[2]
        await link.call("HSET", Keys().members(), node, aged, timeout=5.0)


def state(lease: Lease) -> tuple[str, int]:
    return lease.owner, lease.epoch


def member(owner: str, address: str = "127.0.0.1:9090") -> ClusterMember:
    return ClusterMember(
        owner, int(owner.partition("/")[0]), frozenset({"gateway", "share-coordinator"}), address
    )


async def test_members_keep_all_announced_fields(stage: Stage) -> None:
    announced = replace(member("1/1"), kafka="127.0.0.1:9092", version="0.1.0")
    await stage.store.announce(announced, 60.0)
    await stage.store.announce(member("2/1"), 60.0)
    assert await stage.store.members() == [announced, member("2/1")]
    assert (announced.as_leaving().version, announced.as_leaving().kafka) == ("0.1.0", "")


async def test_a_free_lease_goes_to_the_first_claim(stage: Stage) -> None:
    first = await stage.store.claim(A, "1/1", 60.0)
    assert state(first) == ("1/1", 1)
    assert 59.0 < first.expires_in <= 60.0
    second = await stage.store.claim(A, "2/1", 60.0)
    assert state(second) == ("1/1", 1)
    assert second.resource == A
    assert 50.0 < second.expires_in <= 60.0


async def test_claiming_again_extends_and_keeps_the_epoch(stage: Stage) -> None:
    await stage.store.claim(A, "1/1", 5.0)
    again = await stage.store.claim(A, "1/1", 60.0)
    assert state(again) == ("1/1", 1)
    assert again.expires_in > 50.0


async def test_force_raises_the_epoch_of_our_own_lease_only(stage: Stage) -> None:
    await stage.store.claim(A, "1/1", 60.0)
    assert state(await stage.store.claim(A, "1/1", 60.0, force=True)) == ("1/1", 2)
    assert state(await stage.store.claim(A, "2/1", 60.0, force=True)) == ("1/1", 2)


async def test_only_a_later_incarnation_claims_a_live_lease(stage: Stage) -> None:
    await stage.store.claim(A, "1/9", 60.0)
    assert state(await stage.store.claim(A, "1/10", 60.0)) == ("1/10", 2)
    assert state(await stage.store.claim(A, "1/9", 60.0)) == ("1/10", 2)
    assert state(await stage.store.claim(A, "11/11", 60.0)) == ("1/10", 2)


@pytest.mark.parametrize("owner", ["1/1", "2/1"])
async def test_an_expired_lease_is_claimed_with_a_higher_epoch(stage: Stage, owner: str) -> None:
    await stage.store.claim(A, "1/1", 60.0)
    await stage.expire()
    assert await stage.store.read([A]) == [None]
    assert state(await stage.store.claim(A, owner, 60.0)) == (owner, 2)


async def test_a_released_lease_keeps_its_epoch_for_the_next(stage: Stage) -> None:
    await stage.store.claim(A, "1/1", 60.0)
    await stage.store.release(A, "2/1")
    assert await stage.store.read([A]) != [None]
    await stage.store.release(A, "1/1")
    await stage.store.release(A, "1/1")
    assert await stage.store.read([A]) == [None]
    assert state(await stage.store.claim(A, "2/1", 60.0)) == ("2/1", 2)


async def test_renew_extends_held_leases_and_reports_lost_ones(stage: Stage) -> None:
    await stage.store.claim(A, "1/1", 5.0)
    await stage.store.claim(B, "2/1", 5.0)
    assert await stage.store.renew({A: 1, B: 1, "share-coordinator:3": 1}, "1/1", 60.0) == [
        True,
        False,
        False,
    ]
    ours, others = await stage.store.read([A, B])
    assert ours is not None
    assert others is not None
    assert ours.expires_in > 50.0
    assert others.expires_in <= 5.0
    assert await stage.store.renew({}, "1/1", 60.0) == []


async def test_renewal_at_an_older_epoch_fails(stage: Stage) -> None:
    await stage.store.claim(A, "1/1", 5.0)
    assert (await stage.store.claim(A, "1/1", 5.0, force=True)).epoch == 2
    assert await stage.store.renew({A: 1}, "1/1", 60.0) == [False]
    assert await stage.store.renew({A: 2}, "1/1", 60.0) == [True]


async def test_an_expired_unclaimed_lease_can_be_renewed(stage: Stage) -> None:
    await stage.store.claim(A, "1/1", 60.0)
    await stage.expire()
    assert await stage.store.renew({A: 1}, "1/1", 60.0) == [True]
    assert state(await stage.store.claim(A, "2/1", 60.0)) == ("1/1", 1)


async def test_removed_lease_loses_its_epoch(stage: Stage) -> None:
    for _ in range(2):
        assert (await stage.store.claim(A, "1/1", 10.0)).epoch == 1
        await stage.store.remove(A)
        assert await stage.store.read([A]) == [None]
        assert await stage.store.renew({A: 1}, "1/1", 10.0) == [False]
    await stage.store.remove(A)


async def test_a_released_lease_cannot_be_renewed(stage: Stage) -> None:
    await stage.store.claim(A, "1/1", 60.0)
    await stage.store.release(A, "1/1")
    assert await stage.store.renew({A: 1}, "1/1", 60.0) == [False]
    assert await stage.store.read([A]) == [None]


async def test_read_returns_leases_in_order(stage: Stage) -> None:
    await stage.store.claim(B, "2/1", 60.0)
    free, held = await stage.store.read([A, B])
    assert free is None
    assert held is not None
    assert (held.resource, *state(held)) == (B, "2/1", 1)


async def test_members_are_listed_by_node_id(stage: Stage) -> None:
    await stage.store.announce(member("10/1"), 60.0)
    await stage.store.announce(member("9/1"), 60.0)
    assert await stage.store.members() == [member("9/1"), member("10/1")]


async def test_only_a_later_incarnation_replaces_an_announcement(stage: Stage) -> None:
    await stage.store.announce(member("1/1", "old:1"), 60.0)
    await stage.store.announce(member("1/2", "new:1"), 60.0)
    await stage.store.announce(member("1/1", "old:1"), 60.0)
    assert await stage.store.members() == [member("1/2", "new:1")]
    await stage.store.withdraw("1/1")
    assert await stage.store.members() == [member("1/2", "new:1")]
    await stage.store.withdraw("1/2")
    await stage.store.withdraw("1/2")
    assert await stage.store.members() == []


async def test_announcement_expires_unless_repeated(stage: Stage) -> None:
    await stage.store.announce(member("1/1"), 60.0)
    await stage.store.announce(member("2/1"), 60.0)
    await stage.expire()
    await stage.store.announce(member("2/1"), 60.0)
    assert await stage.store.members() == [member("2/1")]


async def test_an_expired_incarnation_does_not_block_an_earlier_one(stage: Stage) -> None:
    await stage.store.announce(member("1/2"), 60.0)
    await stage.expire()
    await stage.store.announce(member("1/1"), 60.0)
    assert await stage.store.members() == [member("1/1")]


async def test_generation_increases_with_each_change(stage: Stage) -> None:
    assert await stage.store.generation("brokers", "one") == 1
    assert await stage.store.generation("brokers", "one") == 1
    assert await stage.store.generation("brokers", "two") == 2
    assert await stage.store.generation("brokers", "one") == 3
    assert await stage.store.generation("others", "one") == 1


async def test_memory_store_returns_the_epoch_for_logs() -> None:
    store = MemoryLeaseStore()
    assert store.epoch_of(A) == 0
    await store.claim(A, "1/1", 60.0)
    assert store.epoch_of(A) == 1


async def test_members_without_heartbeats_can_be_marked_dead(stage: Stage) -> None:
    silent, other = member("1/1"), member("2/1")
    await stage.store.announce(silent, 60.0)
    await stage.store.announce(other, 90.0)
    assert await stage.store.silent(60.0, 30.0) == []
    assert await stage.store.silent(90.0, 30.0) == [silent]
    assert not await stage.store.mark_dead(silent, 60.0, 30.0)
    assert not await stage.store.mark_dead(member("1/2"), 90.0, 30.0)
    assert not await stage.store.mark_dead(member("3/1"), 90.0, 30.0)
    assert await stage.store.members() == [silent, other]
    assert await stage.store.mark_dead(silent, 90.0, 30.0)
    gone, _ = await stage.store.members()
    assert gone.is_dead
    assert gone.owner == silent.owner


async def test_a_member_marked_dead_detects_it_when_it_returns(stage: Stage) -> None:
    silent = member("1/1")
    assert not await stage.store.announce(silent, 60.0)
    await stage.store.mark_dead(silent, 90.0, 30.0)
    assert await stage.store.announce(silent, 60.0)
    assert not await stage.store.announce(silent, 60.0)
    assert await stage.store.members() == [silent]


async def test_a_restarted_member_was_not_marked_dead(stage: Stage) -> None:
    await stage.store.announce(member("1/1"), 60.0)
    await stage.store.mark_dead(member("1/1"), 90.0, 30.0)
    assert not await stage.store.announce(member("1/2"), 60.0)
    assert await stage.store.members() == [member("1/2")]


async def test_expired_announcement_is_not_unresponsive(stage: Stage) -> None:
    await stage.store.announce(member("1/1"), 60.0)
    await stage.expire()
    assert await stage.store.silent(60.0, 0.0) == []
    assert not await stage.store.mark_dead(member("1/1"), 60.0, 0.0)


async def test_an_announcement_measures_the_clock_skew(stage: Stage) -> None:
    await stage.store.announce(member("1/1"), 60.0)
    assert abs(stage.store.clock_skew) < 1.0


@pytest.mark.parametrize(
    ("delays", "skews"),
    [
        ([(0.2, 0.0), (0.0, 0.0)], [0.0, 0.0]),
        ([(0.0, 0.2), (0.0, 0.0)], [0.2, 0.0]),
        ([(0.0, 0.0), (0.0, 0.2), (0.2, 0.0)], [0.0, 0.0, 0.0]),
        ([(0.0, 0.6), (0.0, 0.0)], [0.0, 0.0]),
    ],
    ids=["slow request", "slow response", "fast before slow", "too slow"],
)
async def test_the_clock_skew_is_never_below_the_real_one(
    redis_servers: Servers, delays: list[tuple[float, float]], skews: list[float]
) -> None:
    link = await connect(redis_servers.fresh(kinds()[0]))
    store, measured = RedisLeaseStore(link), []
    for before, after in delays:
        differences = iter((-before, after))
        clock = Mock(side_effect=lambda: wall_clock() + next(differences))  # noqa: B023
        with patch("sharebroker_server.leases.redis.now", clock):
            await store.announce(member("1/1"), 60.0)
        measured.append(store.clock_skew)
    await link.close()
    assert measured == pytest.approx(skews, abs=0.1)


async def test_a_jump_of_the_clock_is_logged(redis_servers: Servers) -> None:
    link = await connect(redis_servers.fresh(kinds()[0]))
    store = RedisLeaseStore(link)
    await store.announce(member("1/1"), 60.0)
    with patch("sharebroker_server.leases.redis.now", lambda: wall_clock() + 3600.0), capture_logs() as lines:
        await store.announce(member("1/1"), 60.0)
    await link.close()
    assert abs(store.clock_skew - 3600.0) < 1.0
    assert [line["event"] for line in lines] == ["clock of Redis jumped"]


@pytest.mark.parametrize("stage", [*kinds(), CLUSTER], indirect=True)
async def test_a_lease_is_claimed_with_the_epoch_of_another_cluster(stage: Stage) -> None:
    store = stage.store
    assert isinstance(store, RedisLeaseStore)
    assert (await store.claim_from(A, "1/1", 60.0, 7)).epoch == 7
    assert (await store.claim_from(A, "1/1", 60.0, 3)).epoch == 7, "an epoch never decreases"
    assert (await store.claim_from(A, "2/1", 60.0, 20)).owner == "1/1", "the lease of another owner stays"
    await store.release(A, "1/1")
    assert (await store.claim_from(A, "2/1", 60.0, 8)).epoch == 8
