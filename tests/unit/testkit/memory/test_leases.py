"""MemoryLeaseStore beyond the contract that it shares with Redis."""

from __future__ import annotations

import pytest

from sharebroker_server.leases.port import LeasesUnavailable
from tests.testkit.memory.leases import FREE, MemoryLeaseStore, StoredLease, claimed

NOW, TTL = 100.0, 10.0
OURS = StoredLease("1/5", 3, NOW + 4.0)


@pytest.mark.parametrize(
    ("lease", "owner", "force", "expected"),
    [
        pytest.param(FREE, "1/5", False, StoredLease("1/5", 1, NOW + TTL), id="never held"),
        pytest.param(FREE, "1/5", True, StoredLease("1/5", 1, NOW + TTL), id="never held, forced"),
        pytest.param(StoredLease("", 7, 0.0), "1/5", False, StoredLease("1/5", 8, NOW + TTL), id="released"),
        pytest.param(
            StoredLease("2/1", 7, NOW),
            "1/5",
            False,
            StoredLease("1/5", 8, NOW + TTL),
            id="another's, expired",
        ),
        pytest.param(
            StoredLease("1/5", 7, NOW), "1/5", False, StoredLease("1/5", 8, NOW + TTL), id="ours, expired"
        ),
        pytest.param(OURS, "1/5", False, StoredLease("1/5", 3, NOW + TTL), id="ours"),
        pytest.param(OURS, "1/5", True, StoredLease("1/5", 4, NOW + TTL), id="ours, forced"),
        pytest.param(OURS, "1/6", False, StoredLease("1/6", 4, NOW + TTL), id="an earlier incarnation's"),
        pytest.param(
            OURS, "1/6", True, StoredLease("1/6", 4, NOW + TTL), id="an earlier incarnation's, forced"
        ),
        pytest.param(OURS, "1/4", True, OURS, id="a later incarnation's"),
        pytest.param(OURS, "2/9", False, OURS, id="another's"),
        pytest.param(OURS, "2/9", True, OURS, id="another's, forced"),
    ],
)
def test_claim_depends_on_owner_expiry_and_force(
    lease: StoredLease, owner: str, force: bool, expected: StoredLease
) -> None:
    assert claimed(lease, owner, NOW, TTL, force=force) == expected


async def test_an_unavailable_store_fails_every_request() -> None:
    store = MemoryLeaseStore(lambda: 0.0)
    await store.claim("a", "1/1", 10.0)
    store.away = True
    for request in (store.read(["a"]), store.members(), store.claim("a", "1/1", 10.0), store.withdraw("1/1")):
        with pytest.raises(LeasesUnavailable):
            await request
    assert store.epoch_of("a") == 1
    assert store.epoch_of("b") == 0
