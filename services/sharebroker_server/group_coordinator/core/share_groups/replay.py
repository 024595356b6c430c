"""How records change a share group; no other code changes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from sharebroker_server.group_coordinator.core.records import (
    CurrentRecord,
    GroupRecord,
    MemberRecord,
    ShareGroupRecord,
    StateRecord,
    TargetEpochRecord,
    TargetRecord,
)
from sharebroker_server.group_coordinator.core.share_groups.model import Member, Profile, ShareGroup

_NO_PROFILE: Final = Profile(None, "", "", frozenset())


def apply_to(group: ShareGroup, record: ShareGroupRecord) -> None:
    """Applies a record of this group; a GroupRecord that deletes the group empties it."""
    _APPLY[type(record)](group, record)


def _group(group: ShareGroup, record: GroupRecord) -> None:
    if record.epoch is None:
        group.members.clear()
        group.members_changed()
        group.topics.clear()
        group.assignment_epoch = 0
    group.epoch, group.metadata_hash = record.epoch or 0, record.metadata_hash
    group.since_epoch = record.since_epoch


def _member(group: ShareGroup, record: MemberRecord) -> None:
    if record.profile is None:
        group.members.pop(record.member_id, None)
    else:
        group.members[record.member_id] = replace(_existing(group, record.member_id), profile=record.profile)
    group.members_changed()


def _target_epoch(group: ShareGroup, record: TargetEpochRecord) -> None:
    group.assignment_epoch = record.assignment_epoch


def _target(group: ShareGroup, record: TargetRecord) -> None:
    group.members[record.member_id] = replace(_existing(group, record.member_id), target=record.target)
    group.members_changed()


def _current(group: ShareGroup, record: CurrentRecord) -> None:
    group.members[record.member_id] = replace(
        _existing(group, record.member_id),
        epoch=record.epoch,
        previous_epoch=record.previous_epoch,
        assigned=record.assigned,
    )


def _state(group: ShareGroup, record: StateRecord) -> None:
    group.topics = dict(record.topics)


def _existing(group: ShareGroup, member_id: str) -> Member:
    # In a trimmed log the assignment of a member may precede its profile.
    return group.members.get(member_id) or Member(_NO_PROFILE)


_APPLY: Final[Mapping[type, Callable[[ShareGroup, Any], None]]] = MappingProxyType(
    {
        GroupRecord: _group,
        MemberRecord: _member,
        TargetEpochRecord: _target_epoch,
        TargetRecord: _target,
        CurrentRecord: _current,
        StateRecord: _state,
    }
)
