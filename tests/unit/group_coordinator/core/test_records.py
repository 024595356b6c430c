"""Keys of group records: a record replaces the record before it with the same key."""

from __future__ import annotations

import pytest

from sharebroker_server.group_coordinator.core.records import (
    CurrentRecord,
    FloorRecord,
    GroupRecord,
    Key,
    MemberRecord,
    ShareGroupRecord,
    StateRecord,
    TargetEpochRecord,
    TargetRecord,
)
from sharebroker_server.group_coordinator.core.share_groups.model import Profile, TopicState

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
