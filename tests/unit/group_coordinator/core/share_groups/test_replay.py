"""How each record changes a share group."""

from __future__ import annotations

from sharebroker_server.group_coordinator.core.records import (
    CurrentRecord,
    GroupRecord,
    MemberRecord,
    ShareGroupRecord,
    StateRecord,
    TargetEpochRecord,
    TargetRecord,
)
from sharebroker_server.group_coordinator.core.share_groups.model import (
    GroupState,
    Member,
    Profile,
    ShareGroup,
    TopicState,
)
from sharebroker_server.group_coordinator.core.share_groups.replay import apply_to

PROFILE = Profile("r", "c", "h", frozenset({"a"}))
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
        MemberRecord("g", "m", PROFILE), TargetRecord("g", "m", T0), CurrentRecord("g", "m", 4, 3, T0)
    )
    assert group.members == {"m": Member(PROFILE, T0, 4, 3, T0)}


def test_assignment_may_precede_the_profile_in_a_trimmed_log() -> None:
    group = replayed(
        TargetRecord("g", "m", T0), CurrentRecord("g", "m", 4, 3, T0), MemberRecord("g", "m", PROFILE)
    )
    assert group.members == {"m": Member(PROFILE, T0, 4, 3, T0)}


def test_member_record_without_profile_deletes_the_member() -> None:
    group = replayed(
        MemberRecord("g", "m", PROFILE), TargetRecord("g", "m", T0), MemberRecord("g", "m", None)
    )
    assert (group.members, group.covered, group.subscribed) == ({}, {}, set())


def test_new_profile_and_target_invalidate_what_is_cached() -> None:
    group = replayed(MemberRecord("g", "m", PROFILE))
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
        MemberRecord("g", "m", PROFILE),
        StateRecord("g", {"t": TopicState("a", 5)}),
        TargetEpochRecord("g", 3),
    )
    assert (group.assignment_epoch, group.state) == (3, GroupState.STABLE)
    apply_to(group, GroupRecord("g", None, since_epoch=4))
    assert (group.epoch, group.assignment_epoch, group.members, group.topics) == (0, 0, {}, {})
    assert (group.since_epoch, group.subscribed) == (4, set())
