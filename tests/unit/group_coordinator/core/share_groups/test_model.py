"""A share group's members, topics, and the values derived from them."""

from __future__ import annotations

import pytest

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.share_groups.model import (
    POLICY,
    GroupState,
    Member,
    Profile,
    ShareGroup,
    TopicState,
    by_topic,
    partitions_of,
)


def member(*topics: str, **target: frozenset[int]) -> Member:
    return Member(Profile(None, "c", "h", frozenset(topics)), target)


def group_of(**members: Member) -> ShareGroup:
    group = ShareGroup("g", 3)
    group.members.update(members)
    group.members_changed()
    return group


@pytest.mark.parametrize(("since", "offset"), [(5, POLICY), (4, POLICY), (6, 0)])
def test_partition_added_later_starts_at_its_first_record(since: int, offset: int) -> None:
    assert TopicState("a", 5, {0: since}).start_offset(0) == offset


def test_partitions_in_any_phase_may_have_state() -> None:
    state = TopicState("a", 5, {0: 5}, frozenset({1}), frozenset({2}))
    assert state.partitions == {0, 1, 2}


def test_new_group_starts_above_deleted_state() -> None:
    assert ShareGroup("g", 7).since_epoch == 8


@pytest.mark.parametrize(
    ("assignment_epoch", "state", "converged"),
    [
        (3, TopicState("a", 5, {}, frozenset({0})), True),
        (2, TopicState("a", 5, {}, frozenset({0})), False),
        (3, TopicState("a", 5, {0: 5}), False),
        (3, TopicState("a", 5, {}, frozenset(), frozenset({0})), False),
    ],
)
def test_group_converges_with_assignment_and_state(
    assignment_epoch: int, state: TopicState, converged: bool
) -> None:
    group = group_of()
    group.assignment_epoch, group.topics = assignment_epoch, {"t": state}
    assert group.converged is converged


def test_group_without_members_is_empty() -> None:
    assert group_of().state is GroupState.EMPTY
    assert group_of(a=member("x")).state is GroupState.STABLE


def test_subscriptions_and_targets_are_merged() -> None:
    group = group_of(
        a=member("x", "y", t=frozenset({0})), b=member("y", "z", t=frozenset({0, 1}), u=frozenset({2}))
    )
    assert group.subscribed == {"x", "y", "z"}
    assert group.covered == {"t": {0, 1}, "u": {2}}


def test_changed_members_invalidate_what_is_cached() -> None:
    group = group_of(a=member("x", t=frozenset({0})))
    assert (group.subscribed, group.covered) == ({"x"}, {"t": {0}})
    group.members["b"] = member("y", u=frozenset({1}))
    group.members_changed()
    assert (group.subscribed, group.covered) == ({"x", "y"}, {"t": {0}, "u": {1}})


def test_copy_changes_independently() -> None:
    group = group_of(a=member("x"))
    copied = group.copy()
    assert (copied.epoch, copied.since_epoch, copied.subscribed) == (3, 4, {"x"})
    copied.members["b"] = member("y")
    copied.topics["t"] = TopicState("a", 5)
    assert group.members.keys() == {"a"}
    assert not group.topics


def test_assignment_and_partitions_convert_to_each_other() -> None:
    assignment = {"t": frozenset({0, 7}), "u": frozenset({1})}
    assert by_topic(partitions_of(assignment)) == assignment
    assert set(partitions_of(assignment)) == {
        TopicIdPartition("t", 0),
        TopicIdPartition("t", 7),
        TopicIdPartition("u", 1),
    }
    assert by_topic([]) == {}
