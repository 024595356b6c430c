"""The leases of an import."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from unittest.mock import AsyncMock

import pytest

from sharebroker_server.broker.archive.claimed_leases import ClaimedLeases
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.port import ClusterMember, Lease, LeaseLost
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.link import RedisLink
from sharebroker_server.stream_log.port import LogFenced
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.servers


async def test_leases_are_claimed_with_their_epochs_and_released(redis_link: RedisLink) -> None:
    store = RedisLeaseStore(redis_link)
    leases = ClaimedLeases(store, 60.0)
    async with leases.renewed():
        await leases.claim({"catalog": 0, "partition:a:0": 7})
        assert (leases.epoch("catalog"), leases.epoch("partition:a:0")) == (1, 7)
        assert None not in await store.read(["catalog", "partition:a:0"])
    assert await store.read(["catalog", "partition:a:0"]) == [None, None]


async def test_the_lease_of_a_dead_server_is_awaited(redis_link: RedisLink) -> None:
    store = RedisLeaseStore(redis_link)
    await store.claim("catalog", "1/1", 0.5)
    leases = ClaimedLeases(store, 1.0)
    await leases.claim({"catalog": 0})
    assert leases.epoch("catalog") == 2


async def test_a_lease_that_is_not_released_is_reported(
    redis_link: RedisLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharebroker_server.broker.archive.claimed_leases.GRACE_SECONDS", 0.0)
    store = RedisLeaseStore(redis_link)
    await store.claim("catalog", "1/1", 60.0)
    with pytest.raises(ArchiveError, match=r"Another process holds the lease of catalog"):
        await ClaimedLeases(store, 0.3, 0.3).claim({"catalog": 0, "partition:a:0": 0})


async def test_leases_are_renewed_until_the_end(redis_link: RedisLink) -> None:
    store = RedisLeaseStore(redis_link)
    leases = ClaimedLeases(store, 0.6, 0.6)
    renewals = 0
    renew = store.renew

    async def counted(*args: object) -> object:
        nonlocal renewals
        renewals += 1
        return await renew(*args)  # type: ignore[arg-type]

    store.renew = counted  # type: ignore[method-assign, assignment]
    async with leases.renewed():
        await leases.claim({"catalog": 0})
        await eventually(lambda: renewals >= 4)
        assert (await store.claim("catalog", "1/1", 60.0)).owner != "1/1"
    await asyncio.sleep(0)
    assert (await store.claim("catalog", "1/1", 60.0)).owner == "1/1"


async def test_the_lease_of_a_killed_import_is_awaited(
    redis_link: RedisLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may live longer than the lease of a server."""
    monkeypatch.setattr("sharebroker_server.broker.archive.claimed_leases.GRACE_SECONDS", 0.1)
    store = RedisLeaseStore(redis_link)
    await ClaimedLeases(store, 0.2, 0.5).claim({"import": 0})
    later = ClaimedLeases(store, 0.2, 0.5)
    await later.claim({"import": 0})
    assert later.epoch("import") == 2


@pytest.mark.parametrize("reason", [LeaseLost("catalog"), LogFenced("catalog: epoch 1, the lease has 2")])
async def test_an_import_that_another_process_replaced_fails_with_advice(
    redis_link: RedisLink, reason: Exception
) -> None:
    leases = ClaimedLeases(RedisLeaseStore(redis_link), 10.0)
    with pytest.raises(ArchiveError, match=r"took over what it writes \(catalog.*\)\. Repeat"):
        async with leases.renewed():
            raise reason


async def test_leases_that_another_process_claimed_are_detected(redis_link: RedisLink) -> None:
    store = RedisLeaseStore(redis_link)
    leases = ClaimedLeases(store, 10.0)
    await leases.claim({"catalog": 0, "import": 0})
    await leases.check()
    [lease] = await store.read(["import"])
    assert lease is not None
    await store.release("import", lease.owner)
    await store.claim("import", "1/1", 10.0)
    with pytest.raises(LeaseLost, match="import"):
        await leases.check()


async def test_servers_hand_over_their_coordinators_while_an_import_is_announced(
    redis_link: RedisLink,
) -> None:
    store, shard = RedisLeaseStore(redis_link), "share-coordinator:0"

    async def ignored(*_: object) -> None: ...

    member = ClusterMember("1/1", 1, frozenset({"share-coordinator"}), "node1:9090")
    holder = LeaseHolder(store, member, 3.0)
    holder.register("share-coordinator", lambda: [shard], "share-coordinator", ignored, ignored)
    await holder.start()
    leases = ClaimedLeases(store, 3.0)
    try:
        assert holder.holds(shard) == 1
        async with leases.renewed(), leases.announced():
            await leases.claim({shard: 0})
            assert (leases.epoch(shard), holder.holds(shard)) == (2, None)
            assert await holder.owner_of(shard) is None
            assert holder.missing() == [], "the server is ready meanwhile"
        await eventually(lambda: holder.holds(shard) == 3)
        assert [each.owner for each in await store.members()] == ["1/1"]
    finally:
        await holder.stop()


async def test_leases_are_claimed_while_others_are_renewed() -> None:
    store = AsyncMock(RedisLeaseStore)
    store.claim_from.side_effect = lambda resource, owner, ttl, epoch: Lease(resource, owner, epoch, ttl)
    claimed, renewed = asyncio.Event(), list[str]()

    async def slow(epochs: Mapping[str, int], _owner: str, _ttl: float) -> None:
        for resource in epochs:
            await claimed.wait()
            renewed.append(resource)

    store.renew.side_effect = slow
    leases = ClaimedLeases(store, 0.03, 0.03)
    async with leases.renewed():
        await leases.claim({"catalog": 1})
        await eventually(lambda: bool(store.renew.called))
        await leases.claim({"partition:a:0": 1})
        claimed.set()
        await eventually(lambda: "partition:a:0" in renewed)
