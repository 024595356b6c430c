"""MemoryLeaseStore beyond the contract that it shares with Redis."""

from __future__ import annotations

import pytest

from sharebroker_server.leases.memory import MemoryLeaseStore
from sharebroker_server.leases.port import LeasesUnavailable


async def test_an_unavailable_store_fails_every_request() -> None:
    store = MemoryLeaseStore(lambda: 0.0)
    await store.claim("a", "1/1", 10.0)
    store.away = True
    for request in (store.read(["a"]), store.members(), store.claim("a", "1/1", 10.0), store.withdraw("1/1")):
        with pytest.raises(LeasesUnavailable):
            await request
    assert store.epoch_of("a") == 1
    assert store.epoch_of("b") == 0
