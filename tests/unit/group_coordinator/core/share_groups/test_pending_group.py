"""A decision's records apply to a copy of the share group."""

from __future__ import annotations

from sharebroker_server.group_coordinator.core.records import GroupRecord, TargetEpochRecord
from sharebroker_server.group_coordinator.core.share_groups.model import ShareGroup
from sharebroker_server.group_coordinator.core.share_groups.pending_group import PendingGroup


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
