"""Validation of requests about groups (Kafka: GroupCoordinatorService, ShareGroup)."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_server.catalog import topics
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.core.share_groups.commands import LEAVE, Heartbeat
from sharebroker_server.group_coordinator.core.share_groups.group import Member, ShareGroup

MEMBER_ID_LENGTH: Final = 36


def check_heartbeat(heartbeat: Heartbeat, broker: BrokerConfig) -> None:
    """Raises UNSUPPORTED_VERSION if share groups are disabled, INVALID_REQUEST for invalid fields."""
    if not broker.group_share_enable:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Share groups are switched off (group.share.enable).")
    if not 1 <= len(heartbeat.member_id) <= MEMBER_ID_LENGTH:
        raise invalid_field("member_id", f"The member id has 1 to {MEMBER_ID_LENGTH} characters.")
    topics.check_group_id(heartbeat.group_id)
    for field, name, value in (
        ("group_id", "GroupId", heartbeat.group_id),
        ("member_id", "MemberId", heartbeat.member_id),
        ("rack_id", "RackId", heartbeat.rack_id),
    ):
        if value is not None and not value.strip():
            raise invalid_field(field, f"{name} can't be empty.")
    if heartbeat.member_epoch == 0 and not heartbeat.topics:
        raise invalid_field("subscribed_topic_names", "SubscribedTopicNames must be set in first request.")
    if heartbeat.member_epoch < LEAVE:
        raise invalid_field("member_epoch", f"MemberEpoch {heartbeat.member_epoch} is invalid.")


def check_group_id(group_id: str) -> None:
    """Raises INVALID_GROUP_ID for an empty or overlong group id."""
    topics.check_group_id(group_id, code=ErrorCode.INVALID_GROUP_ID)


def check_group_count(group_id: str, groups: int, broker: BrokerConfig, kind: str = "share") -> None:
    """Raises GROUP_MAX_SIZE_REACHED if a shard with `groups` groups of a kind has reached its limit."""
    if groups >= broker.group_share_max_groups:
        raise group_error(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            group_id,
            f"This shard of the coordinator has reached its maximum of {groups} {kind} groups.",
        )


def group_error(code: ErrorCode, group_id: str, message: str, **metadata: str) -> KafkaError:
    """Returns an error about a group."""
    return KafkaError(code, message, metadata={"group_id": group_id, **metadata})


def group_or_raise(group: ShareGroup | None, group_id: str) -> ShareGroup:
    """Returns the group. Raises GROUP_ID_NOT_FOUND."""
    if group is None:
        raise group_not_found(group_id)
    return group


def group_not_found(group_id: str, why: str = "not found") -> KafkaError:
    """Returns GROUP_ID_NOT_FOUND: the group does not exist, or is of another kind."""
    return group_error(ErrorCode.GROUP_ID_NOT_FOUND, group_id, f"Group {group_id} {why}.")


def member_or_raise(group: ShareGroup, member_id: str) -> Member:
    """Returns the member. Raises UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group.group_id, member_id)
    return member


def unknown_member(group_id: str, member_id: str) -> KafkaError:
    """Returns UNKNOWN_MEMBER_ID."""
    return group_error(
        ErrorCode.UNKNOWN_MEMBER_ID,
        group_id,
        f"Member {member_id} is not a member of group {group_id}.",
        member_id=member_id,
    )


def check_empty(group_id: str, members: Sized) -> None:
    """Raises NON_EMPTY_GROUP if the group has members."""
    if members:
        raise group_error(
            ErrorCode.NON_EMPTY_GROUP, group_id, f"Group {group_id} still has {len(members)} member(s)."
        )


def check_group_epoch(group: ShareGroup | None, group_id: str, requested: int | None) -> None:
    """Raises FENCED_STATE_EPOCH if the group changed since the caller read the epoch `requested`."""
    epoch = group.epoch if group else 0
    if requested not in (None, epoch):
        raise group_error(
            ErrorCode.FENCED_STATE_EPOCH,
            group_id,
            f"Group {group_id} is at epoch {epoch}; the change was requested for epoch {requested}.",
            group_epoch=str(epoch),
        )


def check_member_epoch(member: Member, received: int) -> None:
    """Raises FENCED_MEMBER_EPOCH unless `received` is the member's epoch or the previous one."""
    if received in (member.epoch, member.previous_epoch):
        return
    relation = "greater" if received > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member has a {relation} member epoch ({received}) than the one known by the coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
        metadata={"member_epoch": str(member.epoch)},
    )
