"""Ownership under any history: epochs only rise, one owner at a time, resources move little."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.leases.placement import preferred, spread
from sharebroker_server.leases.port import ClusterMember
from tests.testkit.memory.leases import FREE, StoredLease, claimed

OWNERS = st.builds(lambda node, incarnation: f"{node}/{incarnation}", st.integers(1, 3), st.integers(1, 3))
CLAIMS = st.lists(st.tuples(OWNERS, st.floats(0.0, 20.0), st.booleans(), st.booleans()))


@given(CLAIMS)
def test_epochs_only_rise_and_each_names_one_owner(history: list[tuple[str, float, bool, bool]]) -> None:
    lease, now = FREE, 0.0
    owners: dict[int, str] = {}
    for owner, passed, force, release in history:
        now += passed
        after = claimed(lease, owner, now, 10.0, force=force)
        assert after.live(now)
        assert after.epoch >= max(lease.epoch, 1)
        assert owners.setdefault(after.epoch, after.owner) == after.owner
        if after.owner != owner:
            assert after == lease
        lease = StoredLease("", after.epoch, 0.0) if release and after.owner == owner else after


def members(nodes: set[int]) -> list[ClusterMember]:
    return [ClusterMember(f"{node}/1", node, frozenset({"leader"}), "") for node in nodes]


@given(st.sets(st.integers(1, 2**31 - 1), min_size=1, max_size=8), st.integers(1, 2**31 - 1))
def test_new_member_moves_only_resources_to_itself(nodes: set[int], newcomer: int) -> None:
    for index in range(20):
        before = preferred(f"partition:t:{index}", "leader", members(nodes))
        after = preferred(f"partition:t:{index}", "leader", members(nodes | {newcomer}))
        assert before is not None
        assert after is not None
        assert after.node_id in (before.node_id, newcomer)


@given(st.permutations(members({1, 2, 3, 4})), st.text(max_size=10))
def test_preference_does_not_depend_on_order_or_incarnation(
    shuffled: list[ClusterMember], resource: str
) -> None:
    restarted = [ClusterMember(f"{m.node_id}/2", m.node_id, m.roles, m.address) for m in shuffled]
    first = preferred(resource, "leader", members({1, 2, 3, 4}))
    second = preferred(resource, "leader", restarted)
    assert first is not None
    assert second is not None
    assert first.node_id == second.node_id


def test_resources_spread_evenly() -> None:
    nodes = members({1, 2, 3, 4})
    owners = [preferred(f"partition:topic:{index}", "leader", nodes) for index in range(4000)]
    counts = Counter(owner.node_id for owner in owners if owner is not None)
    assert min(counts.values()) > 900
    assert max(counts.values()) < 1100


@given(st.sets(st.integers(1, 2**31 - 1), max_size=8), st.integers(0, 60))
def test_no_member_owns_more_than_one_resource_above_others(nodes: set[int], count: int) -> None:
    resources = [f"share-coordinator:{index}" for index in range(count)]
    owners = spread(resources, "leader", members(nodes))
    assert set(owners) == (set(resources) if nodes else set())
    shares = [sum(owner.node_id == node for owner in owners.values()) for node in nodes]
    assert not shares or max(shares) - min(shares) <= 1
    assert owners == spread(resources, "leader", reversed(members(nodes)))


@given(st.sets(st.integers(1, 2**31 - 1), min_size=1, max_size=8), st.data())
def test_leaving_member_is_assigned_nothing(nodes: set[int], data: st.DataObject) -> None:
    some = members(nodes)
    leaving = data.draw(st.sampled_from(some))
    others = [member for member in some if member is not leaving]
    resources = [f"share-coordinator:{index}" for index in range(20)]
    assert spread(resources, "leader", [*others, leaving.as_leaving()]) == spread(resources, "leader", others)
