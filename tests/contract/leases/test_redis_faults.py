"""Lease stores that are unavailable raise an error within their deadline."""

from __future__ import annotations

import pytest

from sharebroker_server.leases.port import ClusterMember, LeaseStore, LeasesUnavailable
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.link import RedisLink
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.proxy import FaultProxy

ME = ClusterMember("1/1", 1, frozenset(), "127.0.0.1:1")


async def refuses_everything(store: LeaseStore) -> None:
    for call in (
        store.claim("catalog", "1/1", 10.0),
        store.renew({"catalog": 1}, "1/1", 10.0),
        store.release("catalog", "1/1"),
        store.read(["catalog"]),
        store.announce(ME, 10.0),
        store.members(),
        store.withdraw("1/1"),
    ):
        with pytest.raises(LeasesUnavailable):
            await call


async def test_memory_store_becomes_unavailable_on_demand() -> None:
    store = MemoryLeaseStore()
    store.away = True
    await refuses_everything(store)


async def test_silent_redis_fails_within_the_deadline(redis_url: str) -> None:
    async with FaultProxy(int(redis_url.rpartition(":")[2])) as proxy:
        link = await RedisLink.connect(proxy.url)
        store = RedisLeaseStore(link, timeout=0.05)
        proxy.black_hole()
        await refuses_everything(store)
        await link.close()


async def test_unavailable_redis_fails_within_the_deadline(redis_link: RedisLink) -> None:
    store = RedisLeaseStore(redis_link)
    await redis_link.close()
    await refuses_everything(store)
