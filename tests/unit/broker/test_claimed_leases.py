"""The leases of an import."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from unittest.mock import AsyncMock

import pytest

from sharebroker_server.broker.claimed_leases import ClaimedLeases
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.leases.port import Lease
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.link import RedisLink
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


async def test_a_server_that_runs_is_reported(redis_link: RedisLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharebroker_server.broker.claimed_leases.GRACE_SECONDS", 0.0)
    store = RedisLeaseStore(redis_link)
    await store.claim("catalog", "1/1", 60.0)
    with pytest.raises(ArchiveError, match=r"it holds the lease of catalog\. Stop all servers"):
        await ClaimedLeases(store, 0.3).claim({"catalog": 0, "partition:a:0": 0})


async def test_leases_are_renewed_until_the_end(redis_link: RedisLink) -> None:
    store = RedisLeaseStore(redis_link)
    leases = ClaimedLeases(store, 0.6)
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


async def test_leases_are_claimed_while_others_are_renewed() -> None:
    store = AsyncMock(RedisLeaseStore)
    store.claim_from.side_effect = lambda resource, owner, ttl, epoch: Lease(resource, owner, epoch, ttl)
    claimed, renewed = asyncio.Event(), list[str]()

    async def slow(epochs: Mapping[str, int], _owner: str, _ttl: float) -> None:
        for resource in epochs:
            await claimed.wait()
            renewed.append(resource)

    store.renew.side_effect = slow
    leases = ClaimedLeases(store, 0.03)
    async with leases.renewed():
        await leases.claim({"catalog": 1})
        await eventually(lambda: bool(store.renew.called))
        await leases.claim({"partition:a:0": 1})
        claimed.set()
        await eventually(lambda: "partition:a:0" in renewed)
