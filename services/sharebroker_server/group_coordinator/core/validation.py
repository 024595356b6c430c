"""What is wrong with a request, and how that is said (Kafka: GroupCoordinatorService, ShareGroup)."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_server.catalog import names
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.core.commands import LEAVE, Heartbeat
from sharebroker_server.group_coordinator.core.model import Member, ShareGroup

MEMBER_ID_LENGTH: Final = 36


def check_heartbeat(heartbeat: Heartbeat, broker: BrokerConfig) -> None:
    """Raises UNSUPPORTED_VERSION where share groups are switched off, INVALID_REQUEST for illegal fields."""
    if not broker.group_share_enable:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Share groups are switched off (group.share.enable).")
    if not 1 <= len(heartbeat.member_id) <= MEMBER_ID_LENGTH:
        raise _illegal("member_id", f"The member id has 1 to {MEMBER_ID_LENGTH} characters.")
    names.check_group_id(heartbeat.group_id)
    for field, name, value in (
        ("group_id", "GroupId", heartbeat.group_id),
        ("member_id", "MemberId", heartbeat.member_id),
        ("rack_id", "RackId", heartbeat.rack_id),
    ):
        if value is not None and not value.strip():
            raise _illegal(field, f"{name} can't be empty.")
    if heartbeat.member_epoch == 0 and not heartbeat.topics:
        raise _illegal("subscribed_topic_names", "SubscribedTopicNames must be set in first request.")
    if heartbeat.member_epoch < LEAVE:
        raise _illegal("member_epoch", f"MemberEpoch {heartbeat.member_epoch} is invalid.")


def check_group_id(group_id: str) -> None:
    """Raises INVALID_GROUP_ID for one that is empty or too long."""
    names.check_group_id(group_id, code=ErrorCode.INVALID_GROUP_ID)


def check_groups(group_id: str, groups: int, broker: BrokerConfig, kind: str = "share") -> None:
    """Raises GROUP_MAX_SIZE_REACHED where a shard of so many `groups` of a kind can have no new one."""
    if groups >= broker.group_share_max_groups:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"There are {groups} {kind} groups in this shard of the coordinator, and no more may be.",
            metadata={"group_id": group_id},
        )


def known_group(group: ShareGroup | None, group_id: str) -> ShareGroup:
    """The group. Raises GROUP_ID_NOT_FOUND."""
    if group is None:
        raise no_group(group_id)
    return group


def no_group(group_id: str, why: str = "not found") -> KafkaError:
    """GROUP_ID_NOT_FOUND: the group is not there, or of another kind."""
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.", metadata={"group_id": group_id}
    )


def known_member(group: ShareGroup, member_id: str) -> Member:
    """The member. Raises UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        raise no_member(group.group_id, member_id)
    return member


def no_member(group_id: str, member_id: str) -> KafkaError:
    """UNKNOWN_MEMBER_ID."""
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group_id}.",
        metadata={"group_id": group_id, "member_id": member_id},
    )


def check_empty(group_id: str, members: Sized) -> None:
    """Raises NON_EMPTY_GROUP."""
    if members:
        raise KafkaError(
            ErrorCode.NON_EMPTY_GROUP,
            f"Group {group_id} still has {len(members)} member(s).",
            metadata={"group_id": group_id},
        )


def check_group_epoch(group: ShareGroup | None, group_id: str, asked: int | None) -> None:
    """Raises FENCED_STATE_EPOCH where the group is not as it was when somebody asked for a change."""
    epoch = group.epoch if group else 0
    if asked not in (None, epoch):
        raise KafkaError(
            ErrorCode.FENCED_STATE_EPOCH,
            f"Group {group_id} is at epoch {epoch}; the change was asked for at {asked}.",
            metadata={"group_id": group_id, "group_epoch": str(epoch)},
        )


def check_member_epoch(member: Member, received: int) -> None:
    """Raises FENCED_MEMBER_EPOCH unless `received` is the member's epoch or the one before."""
    if received in (member.epoch, member.previous_epoch):
        return
    relation = "greater" if received > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member has a {relation} member epoch ({received}) than the one known by the coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin.",
        metadata={"member_epoch": str(member.epoch)},
    )


def _illegal(field: str, message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message, violations=[FieldViolation(field, message)])
