"""Who may take a lease, and who should have it."""

from __future__ import annotations

import pytest

from sharebroker_server.leases.names import CATALOG, kind_of, partition, shard
from sharebroker_server.leases.port import Member
from sharebroker_server.leases.rules import FREE, StoredLease, claimed, preferred, succeeds

NOW, TTL = 100.0, 10.0
OURS = StoredLease("1/5", 3, NOW + 4.0)


@pytest.mark.parametrize(
    ("owner", "earlier", "expected"),
    [
        ("1/2", "1/1", True),
        ("1/10", "1/9", True),
        ("1/1", "1/1", False),
        ("1/1", "1/2", False),
        ("2/2", "1/1", False),
        ("11/2", "1/1", False),
    ],
)
def test_succession_of_incarnations(owner: str, earlier: str, expected: bool) -> None:
    assert succeeds(owner, earlier) is expected


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
def test_claims(lease: StoredLease, owner: str, force: bool, expected: StoredLease) -> None:
    assert claimed(lease, owner, NOW, TTL, force=force) == expected


def test_no_member_is_preferred_without_the_role() -> None:
    gateway = Member("1/1", 1, frozenset({"gateway"}), "")
    assert preferred("catalog", "group-coordinator", []) is None
    assert preferred("catalog", "group-coordinator", [gateway]) is None
    assert preferred("catalog", "gateway", [gateway]) == gateway


def test_names() -> None:
    assert shard("share-coordinator", 7) == "share-coordinator:7"
    assert partition("topic-id", 3) == "partition:topic-id:3"
    assert [kind_of(name) for name in (CATALOG, shard("group-coordinator", 1), partition("t", 0))] == [
        "catalog",
        "group-coordinator",
        "partition",
    ]
