"""The assignor's guarantees: balanced, no idle member, every partition covered, few moves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.share_groups.assignor import assign
from sharebroker_server.group_coordinator.core.share_groups.group import Assignment, partitions_of

topics = st.dictionaries(st.sampled_from("tuvw"), st.integers(1, 12), min_size=1, max_size=4)
members = st.lists(st.text("abcdef", min_size=1, max_size=3), unique=True, min_size=1, max_size=24)


def assignable_of(sizes: dict[str, int]) -> dict[str, frozenset[int]]:
    return {topic_id: frozenset(range(size)) for topic_id, size in sizes.items()}


def counts(assignment: dict[str, Assignment]) -> Counter[TopicIdPartition]:
    return Counter(some for held in assignment.values() for some in partitions_of(held))


def sizes(assignment: dict[str, Assignment]) -> list[int]:
    return [sum(map(len, held.values())) for held in assignment.values()]


@st.composite
def previous(draw: st.DrawFn, who: list[str], assignable: Assignment) -> dict[str, Assignment]:
    """Draws any former target: stale topics, too many partitions, too few."""
    some = st.dictionaries(
        st.sampled_from([*sorted(assignable), "gone"]),
        st.frozensets(st.integers(0, 13), min_size=1),
        max_size=4,
    )
    return {member: draw(some) for member in who if draw(st.booleans())}


@given(st.data(), topics, members)
def test_equal_subscriptions_are_balanced_and_covered(
    data: st.DataObject, some: dict[str, int], who: list[str]
) -> None:
    assignable = assignable_of(some)
    subscriptions = {member: set(some) for member in who}
    result = assign(subscriptions, assignable, data.draw(previous(who, assignable)))
    partitions = sum(some.values())
    sharing = -(-len(who) // partitions)
    assert result.keys() == set(who)
    assert max(sizes(result)) - min(sizes(result)) <= 1
    assert min(sizes(result)) >= min(1, partitions // len(who)) or len(who) > partitions
    if len(who) > partitions:
        assert min(sizes(result)) >= 1
    held = counts(result)
    assert set(held) == set(partitions_of(assignable))
    assert max(held.values()) <= sharing
    if len(who) <= partitions:
        assert set(held.values()) == {1}


@given(st.data(), topics, members)
def test_different_subscriptions_are_balanced_and_covered(
    data: st.DataObject, some: dict[str, int], who: list[str]
) -> None:
    assignable = assignable_of(some)
    wanted = st.sets(st.sampled_from([*sorted(some), "not there"]))
    subscriptions = {member: data.draw(wanted) for member in who}
    result = assign(subscriptions, assignable, data.draw(previous(who, assignable)))
    for topic_id, partitions in assignable.items():
        interested = [member for member in who if topic_id in subscriptions[member]]
        holders = Counter(
            partition for member in who for partition in result[member].get(topic_id, frozenset())
        )
        assert set(holders) == (partitions if interested else set())
        if interested:
            assert max(holders.values()) <= -(-len(interested) // len(partitions)) or not _alike(
                subscriptions, some
            )
            if len(interested) > len(partitions) and not _alike(subscriptions, some):
                assert all(result[member].get(topic_id) for member in interested)
    for member, held in result.items():
        assert held.keys() <= subscriptions[member] & assignable.keys()


def _alike(subscriptions: dict[str, set[str]], some: dict[str, int]) -> bool:
    return len({frozenset(wanted & some.keys()) for wanted in subscriptions.values()}) == 1


@given(topics, members)
def test_nothing_moves_when_nothing_changed(some: dict[str, int], who: list[str]) -> None:
    assignable = assignable_of(some)
    subscriptions = {member: set(some) for member in who}
    first = assign(subscriptions, assignable, {})
    assert assign(subscriptions, assignable, first) == first


@given(topics, members)
def test_order_of_members_does_not_matter(some: dict[str, int], who: list[str]) -> None:
    assignable = assignable_of(some)
    forwards = assign({member: set(some) for member in who}, assignable, {})
    assert assign({member: set(some) for member in reversed(who)}, assignable, {}) == forwards


@given(topics, members, st.text("ghi", min_size=1, max_size=3))
def test_staying_members_lose_only_partitions_beyond_their_quota(
    some: dict[str, int], who: list[str], newcomer: str
) -> None:
    assignable = assignable_of(some)
    before = assign({member: set(some) for member in who}, assignable, {})
    after = assign({member: set(some) for member in [*who, newcomer]}, assignable, before)
    if len(who) < sum(some.values()):
        for member in who:
            kept = set(partitions_of(before[member])) & set(partitions_of(after[member]))
            quota = len(set(partitions_of(after[member])))
            assert len(kept) == min(quota, len(set(partitions_of(before[member]))))


@given(topics, members)
def test_partitions_of_a_leaver_are_spread_and_others_stay(some: dict[str, int], who: list[str]) -> None:
    assignable = assignable_of(some)
    before = assign({member: set(some) for member in who}, assignable, {})
    left = who[1:]
    after = assign({member: set(some) for member in left}, assignable, before)
    if len(who) <= sum(some.values()):
        for member in left:
            lost = set(partitions_of(before[member])) - set(partitions_of(after[member]))
            assert len(lost) <= 1


def test_empty_groups_and_topics_have_an_empty_assignment() -> None:
    assert assign({}, {"t": frozenset({0})}, {}) == {}
    assert assign({"m": {"t"}}, {}, {"m": {"t": frozenset({0})}}) == {"m": {}}


def test_more_members_than_partitions_share() -> None:
    result = assign({f"m{n}": {"t"} for n in range(5)}, {"t": frozenset({0, 1})}, {})
    assert sorted(counts(result).values()) == [3, 3]
    assert sorted(sizes(result)) == [1, 1, 1, 1, 2]
