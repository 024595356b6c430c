"""A share group: its values, its records, and how records change it."""

from __future__ import annotations

import pytest

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.share_groups.group import (
    POLICY,
    CurrentRecord,
    FloorRecord,
    GroupRecord,
    GroupState,
    Key,
    Member,
    MemberRecord,
    PendingGroup,
    Profile,
    ShareGroup,
    ShareGroupRecord,
    StateRecord,
    TargetEpochRecord,
    TargetRecord,
    TopicState,
    apply_to,
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


def test_copy_keeps_the_epoch_below_which_state_was_deleted() -> None:
    group = ShareGroup("g", 7)
    group.since_epoch = 0  # as records state that were written before there was such an epoch
    assert group.copy().since_epoch == 0


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


def test_changed_members_invalidate_the_caches() -> None:
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


Keyed = ShareGroupRecord | FloorRecord
PROFILE = Profile(None, "c", "h", frozenset({"a"}))


@pytest.mark.parametrize(
    ("record", "later", "key"),
    [
        (GroupRecord("g", 1), GroupRecord("g", None), ("group", "g", "")),
        (MemberRecord("g", "m", PROFILE), MemberRecord("g", "m", None), ("member", "g", "m")),
        (TargetEpochRecord("g", 1), TargetEpochRecord("g", 2), ("target epoch", "g", "")),
        (TargetRecord("g", "m", {}), TargetRecord("g", "m", {"t": frozenset({0})}), ("target", "g", "m")),
        (CurrentRecord("g", "m", 1, 0, {}), CurrentRecord("g", "m", 2, 1, {}), ("current", "g", "m")),
        (StateRecord("g", {}), StateRecord("g", {"t": TopicState("a", 5)}), ("state", "g", "")),
        (FloorRecord(1), FloorRecord(2), ("floor", "", "")),
    ],
)
def test_later_record_has_the_same_key(record: Keyed, later: Keyed, key: Key) -> None:
    assert record.key == later.key == key


def test_kinds_groups_and_members_do_not_share_keys() -> None:
    records: list[Keyed] = []
    for group_id in ("g", "h"):
        records += [GroupRecord(group_id, 1), TargetEpochRecord(group_id, 1), StateRecord(group_id, {})]
        records += [MemberRecord(group_id, member_id, PROFILE) for member_id in "mn"]
        records += [TargetRecord(group_id, member_id, {}) for member_id in "mn"]
        records += [CurrentRecord(group_id, member_id, 1, 0, {}) for member_id in "mn"]
    assert len({record.key for record in records}) == len(records)


WITH_RACK = Profile("r", "c", "h", frozenset({"a"}))
T0 = {"t": frozenset({0})}


def replayed(*records: ShareGroupRecord) -> ShareGroup:
    group = ShareGroup("g")
    for record in records:
        apply_to(group, record)
    return group


def test_group_record_sets_the_epochs() -> None:
    group = replayed(GroupRecord("g", 3, 17, 2))
    assert (group.epoch, group.metadata_hash, group.since_epoch) == (3, 17, 2)


def test_records_of_a_member_fill_in_its_fields() -> None:
    group = replayed(
        MemberRecord("g", "m", WITH_RACK), TargetRecord("g", "m", T0), CurrentRecord("g", "m", 4, 3, T0)
    )
    assert group.members == {"m": Member(WITH_RACK, T0, 4, 3, T0)}


def test_assignment_may_precede_the_profile_in_a_trimmed_log() -> None:
    group = replayed(
        TargetRecord("g", "m", T0), CurrentRecord("g", "m", 4, 3, T0), MemberRecord("g", "m", WITH_RACK)
    )
    assert group.members == {"m": Member(WITH_RACK, T0, 4, 3, T0)}


def test_member_record_without_profile_deletes_the_member() -> None:
    group = replayed(
        MemberRecord("g", "m", WITH_RACK), TargetRecord("g", "m", T0), MemberRecord("g", "m", None)
    )
    assert (group.members, group.covered, group.subscribed) == ({}, {}, set())


def test_new_profile_and_target_invalidate_the_caches() -> None:
    group = replayed(MemberRecord("g", "m", WITH_RACK))
    assert (group.subscribed, group.covered) == ({"a"}, {})
    apply_to(group, TargetRecord("g", "m", T0))
    apply_to(group, MemberRecord("g", "m", Profile(None, "c", "h", frozenset({"b"}))))
    assert (group.subscribed, group.covered) == ({"b"}, {"t": {0}})


def test_state_record_replaces_all_topics() -> None:
    group = replayed(StateRecord("g", {"t": TopicState("a", 5)}), StateRecord("g", {"u": TopicState("b", 6)}))
    assert group.topics == {"u": TopicState("b", 6)}


def test_deletion_of_the_group_empties_it() -> None:
    group = replayed(
        GroupRecord("g", 3, 17, 2),
        MemberRecord("g", "m", WITH_RACK),
        StateRecord("g", {"t": TopicState("a", 5)}),
        TargetEpochRecord("g", 3),
    )
    assert (group.assignment_epoch, group.state) == (3, GroupState.STABLE)
    apply_to(group, GroupRecord("g", None, since_epoch=4))
    assert (group.epoch, group.assignment_epoch, group.members, group.topics) == (0, 0, {}, {})
    assert (group.since_epoch, group.subscribed) == (4, set())


def test_original_group_does_not_change() -> None:
    original = ShareGroup("g", 3)
    pending = PendingGroup(original)
    assert pending.group is original
    pending.add(TargetEpochRecord("g", 3))
    assert (original.assignment_epoch, pending.group.assignment_epoch) == (0, 3)


def test_each_step_applies_to_the_steps_before() -> None:
    pending = PendingGroup(ShareGroup("g", 3))
    pending.raise_epoch()
    copied = pending.group
    pending.raise_epoch()
    assert pending.group is copied
    assert (pending.group.epoch, pending.raised) == (5, 2)
    assert [record.epoch for record in pending.records if isinstance(record, GroupRecord)] == [4, 5]


def test_raised_epoch_keeps_the_hash_of_topics_unless_given() -> None:
    pending = PendingGroup(ShareGroup("g", 3))
    pending.raise_epoch(metadata_hash=17)
    pending.raise_epoch()
    assert pending.records == [GroupRecord("g", 4, 17, 4), GroupRecord("g", 5, 17, 4)]
