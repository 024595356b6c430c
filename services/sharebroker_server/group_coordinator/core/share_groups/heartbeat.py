"""A share group member's heartbeat: joining, changing the subscription, staying, leaving.

The order of the steps matters. The group epoch rises before state is initialised with it and before the
assignor runs for it; the member is moved to the new assignment last. Source: KIP-932, Kafka's
GroupMetadataManager.shareGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.core import validation
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage
from sharebroker_server.group_coordinator.core.share_groups import commands as c
from sharebroker_server.group_coordinator.core.share_groups import share_state
from sharebroker_server.group_coordinator.core.share_groups.assignor import assign
from sharebroker_server.group_coordinator.core.share_groups.group import (
    Assignment,
    CurrentRecord,
    Member,
    MemberRecord,
    PendingGroup,
    Profile,
    ShareGroup,
    TargetEpochRecord,
    TargetRecord,
    TopicState,
)

_HASH_MASK = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class HeartbeatContext:
    """The input of a heartbeat besides its group.

    `busy` partitions have their state initialised or deleted at the moment. `may_assign` is false while the
    last assignment is younger than the assignment interval.
    """

    view: MetadataImage
    now: float
    busy: Set[TopicIdPartition] = frozenset()
    may_assign: bool = True


def check(group: ShareGroup | None, heartbeat: c.Heartbeat, view: MetadataImage, groups: int) -> None:
    """Validates a heartbeat to a shard with `groups` share groups.

    Raises UNSUPPORTED_VERSION, INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
    GROUP_MAX_SIZE_REACHED, GROUP_AUTHORIZATION_FAILED for a member of another principal.
    """
    validation.check_heartbeat(heartbeat, view.broker)
    _check_principal(group, heartbeat)
    if heartbeat.member_epoch == 0:
        _check_limits(group, heartbeat, view.broker, groups)
        return
    member = validation.member_or_raise(
        validation.group_or_raise(group, heartbeat.group_id), heartbeat.member_id
    )
    if heartbeat.member_epoch > 0:
        validation.check_member_epoch(member, heartbeat.member_epoch)
    elif heartbeat.stream_id not in ("", member.profile.stream_id):
        raise validation.unknown_member(
            heartbeat.group_id, heartbeat.member_id
        )  # another stream has joined as it since


def _check_principal(group: ShareGroup | None, heartbeat: c.Heartbeat) -> None:
    """Only the principal that joined may send a member's heartbeats.

    Another one would take over the member's assignment, or make it leave. In Kafka it may.
    """
    member = group.members.get(heartbeat.member_id) if group is not None else None
    known = {member.profile.principal, heartbeat.principal} - {""} if member is not None else ()
    if len(known) > 1:
        raise validation.group_error(
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            heartbeat.group_id,
            f"Member {heartbeat.member_id} of group {heartbeat.group_id} belongs to another principal.",
            member_id=heartbeat.member_id,
        )


def apply_heartbeat(
    pending: PendingGroup, heartbeat: c.Heartbeat, context: HeartbeatContext
) -> c.HeartbeatReply:
    """Adds the records of a valid heartbeat to the pending group and returns the reply."""
    if heartbeat.member_epoch == c.LEAVE:
        remove(pending, heartbeat.member_id)
        return c.HeartbeatReply(heartbeat.member_id, c.LEAVE)
    subscription_changed = _update_profile(pending, heartbeat)
    share_state.forget_deleted_topics(pending, context.view)
    topics = _subscribed_topics(pending.group, context.view)
    _raise_epoch(pending, topics, subscription_changed, context.busy)
    initialize = _initialize(pending, topics, context)
    if pending.group.epoch > pending.group.assignment_epoch and context.may_assign:
        _assign(pending, topics)
    # A member that still sends the previous epoch did not receive the response with the current one.
    behind = heartbeat.member_epoch != pending.group.members[heartbeat.member_id].epoch
    changed = _reconcile(pending, heartbeat.member_id)
    return _reply(pending.group, heartbeat, context, changed or behind, initialize)


def remove(pending: PendingGroup, member_id: str) -> None:
    """Removes a member that left or is fenced.

    The next heartbeat of another member reassigns its partitions.
    """
    pending.add(MemberRecord(pending.group.group_id, member_id, None))
    pending.raise_epoch()


def _check_limits(
    group: ShareGroup | None, heartbeat: c.Heartbeat, broker: BrokerConfig, groups: int
) -> None:
    limit = broker.group_share_max_size
    if group is None:
        validation.check_group_count(heartbeat.group_id, groups, broker)
    elif heartbeat.member_id not in group.members and len(group.members) >= limit:
        raise validation.group_error(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            heartbeat.group_id,
            f"The share group has reached its maximum capacity of {limit} members.",
        )


def _update_profile(pending: PendingGroup, heartbeat: c.Heartbeat) -> bool:
    """Records the member's profile if it changed, and the end of its silence if that was stored.

    Returns whether its subscription changed.
    """
    member = pending.group.members.get(heartbeat.member_id)
    before = member.profile.subscribed if member else frozenset[str]()
    subscribed = before if heartbeat.topics is None else frozenset(heartbeat.topics)
    rack_id = member.profile.rack_id if member and heartbeat.rack_id is None else heartbeat.rack_id
    stream_id = member.profile.stream_id if member and heartbeat.member_epoch else heartbeat.stream_id
    principal = heartbeat.principal or (member.profile.principal if member else "")
    profile = Profile(rack_id, heartbeat.client_id, heartbeat.client_host, subscribed, stream_id, principal)
    if member is None or profile != member.profile or member.silence is not None:
        pending.add(MemberRecord(heartbeat.group_id, heartbeat.member_id, profile))
    return member is None or subscribed != before


def _subscribed_topics(group: ShareGroup, view: MetadataImage) -> list[Topic]:
    found = (view.topic(name) for name in sorted(group.subscribed))
    return [topic for topic in found if topic is not None]


def _raise_epoch(
    pending: PendingGroup, topics: list[Topic], subscription_changed: bool, busy: Set[TopicIdPartition]
) -> None:
    """Raises the epoch by one if there is any reason to."""
    group = pending.group
    metadata_hash = sum(topic.fingerprint for topic in topics) & _HASH_MASK
    if (
        subscription_changed
        or metadata_hash != group.metadata_hash
        or _has_unassigned_state(group, topics)
        or share_state.interrupted(group, topics, busy)
    ):
        pending.raise_epoch(metadata_hash)


def _has_unassigned_state(group: ShareGroup, topics: list[Topic]) -> bool:
    """Whether the target assignment, although up to date, lacks partitions with state."""
    if group.assignment_epoch < group.epoch:
        return False
    return group.covered != share_state.initialized(group, topics)


def _initialize(
    pending: PendingGroup, topics: list[Topic], context: HeartbeatContext
) -> c.InitializeState | None:
    missing = share_state.begin_missing(pending, topics, context.busy, int(context.now * 1000))
    if not missing:
        return None
    group = pending.group
    offsets = {key: group.topics[key.topic_id].start_offset(key.partition) for key in sorted(missing)}
    since = {topic_id: group.topics[topic_id].since_epoch for topic_id, _ in missing}
    return c.InitializeState(group.group_id, group.epoch, offsets, since)


def _assign(pending: PendingGroup, topics: list[Topic]) -> None:
    group = pending.group
    ids = {topic.name: topic.topic_id for topic in topics}
    targets = assign(
        {
            member_id: {ids[name] for name in member.profile.subscribed if name in ids}
            for member_id, member in group.members.items()
        },
        share_state.initialized(group, topics),
        {member_id: member.target for member_id, member in group.members.items()},
    )
    for member_id, target in targets.items():
        if target != group.members[member_id].target:
            pending.add(TargetRecord(group.group_id, member_id, target))
    pending.add(TargetEpochRecord(group.group_id, group.epoch))


def _reconcile(pending: PendingGroup, member_id: str) -> bool:
    """Moves the member to its target assignment; returns whether its partitions changed."""
    group = pending.group
    member = group.members[member_id]
    due = _within_subscription(group.topics, member)
    if member.epoch == group.assignment_epoch and member.assigned == due:
        return False
    previous = member.epoch if member.epoch != group.assignment_epoch else member.previous_epoch
    pending.add(CurrentRecord(group.group_id, member_id, group.assignment_epoch, previous, due))
    return member.assigned != due


def _within_subscription(topics: Mapping[str, TopicState], member: Member) -> Assignment:
    subscribed = member.profile.subscribed
    return {
        topic_id: partitions
        for topic_id, partitions in member.target.items()
        if topic_id in topics and topics[topic_id].name in subscribed
    }


def _reply(
    group: ShareGroup,
    heartbeat: c.Heartbeat,
    context: HeartbeatContext,
    changed: bool,
    initialize: c.InitializeState | None,
) -> c.HeartbeatReply:
    member = group.members[heartbeat.member_id]
    full = changed or heartbeat.member_epoch == 0 or heartbeat.topics is not None
    return c.HeartbeatReply(
        heartbeat.member_id,
        member.epoch,
        context.view.group_config(group.group_id).share_heartbeat_interval_ms,
        member.assigned if full else None,
        initialize,
        pending=any(
            state.initializing for state in group.topics.values() if state.name in member.profile.subscribed
        ),
    )
