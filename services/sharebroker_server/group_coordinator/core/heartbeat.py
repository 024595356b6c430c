"""A member's heartbeat: joining, re-subscribing, staying, leaving.

Order matters: the group's epoch rises before state is initialised at it and before the assignor runs for it,
and the member is brought to the new assignment last.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.records import Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.core import share_state
from sharebroker_server.group_coordinator.core.assignor import assign
from sharebroker_server.group_coordinator.core.commands import (
    LEAVE,
    Heartbeat,
    HeartbeatReply,
    InitializeState,
)
from sharebroker_server.group_coordinator.core.model import (
    Assignment,
    Member,
    Profile,
    ShareGroup,
    TopicState,
)
from sharebroker_server.group_coordinator.core.pending_group import Draft
from sharebroker_server.group_coordinator.core.records import (
    CurrentRecord,
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
)
from sharebroker_server.group_coordinator.core.validation import (
    check_groups,
    check_heartbeat,
    check_member_epoch,
    known_group,
    known_member,
    no_member,
)
from sharebroker_server.group_coordinator.core.view import ClusterView

_HASH_MASK = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a heartbeat meets besides its group: `busy` state is being initialised or deleted right now,
    `may_assign` is false while the last assignment is younger than the assignment interval.
    """

    view: ClusterView
    now: float
    busy: Set[TopicIdPartition] = frozenset()
    may_assign: bool = True


def check(group: ShareGroup | None, heartbeat: Heartbeat, view: ClusterView, groups: int) -> None:
    """Everything that can be wrong with a heartbeat to a shard of so many `groups`.

    Raises UNSUPPORTED_VERSION, INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
    GROUP_MAX_SIZE_REACHED.
    """
    check_heartbeat(heartbeat, view.broker)
    if heartbeat.member_epoch == 0:
        _check_room(group, heartbeat, view.broker, groups)
        return
    member = known_member(known_group(group, heartbeat.group_id), heartbeat.member_id)
    if heartbeat.member_epoch > 0:
        check_member_epoch(member, heartbeat.member_epoch)
    elif heartbeat.stream_id not in ("", member.profile.stream_id):
        raise no_member(heartbeat.group_id, heartbeat.member_id)  # it is another stream's by now


def beat(draft: Draft, heartbeat: Heartbeat, around: Circumstances) -> HeartbeatReply:
    """What a checked heartbeat makes of the group."""
    if heartbeat.member_epoch == LEAVE:
        remove(draft, heartbeat.member_id)
        return HeartbeatReply(heartbeat.member_id, LEAVE)
    subscription_changed = _put_profile(draft, heartbeat)
    share_state.forget_deleted_topics(draft, around.view)
    topics = _subscribed_topics(draft.group, around.view)
    _raise_epoch(draft, topics, subscription_changed, around.busy)
    initialize = _initialize(draft, topics, around)
    if draft.group.epoch > draft.group.assignment_epoch and around.may_assign:
        _assign(draft, topics)
    # Whoever still has the epoch before did not hear what came with this one.
    behind = heartbeat.member_epoch != draft.group.members[heartbeat.member_id].epoch
    changed = _reconcile(draft, heartbeat.member_id)
    return _reply(draft.group, heartbeat, around, changed or behind, initialize)


def remove(draft: Draft, member_id: str) -> None:
    """The member leaves, or is fenced. Its partitions go to others with the next heartbeat of one of them."""
    draft.put(MemberRecord(draft.group.group_id, member_id, None))
    draft.raise_epoch()


def _check_room(group: ShareGroup | None, heartbeat: Heartbeat, broker: BrokerConfig, groups: int) -> None:
    most = broker.group_share_max_size
    if group is None:
        check_groups(heartbeat.group_id, groups, broker)
    elif heartbeat.member_id not in group.members and len(group.members) >= most:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {most} members.",
            metadata={"group_id": heartbeat.group_id},
        )


def _put_profile(draft: Draft, heartbeat: Heartbeat) -> bool:
    """Records what the member says of itself if that is new; tells whether its subscription changed."""
    known = draft.group.members.get(heartbeat.member_id)
    before = known.profile.subscribed if known else frozenset[str]()
    subscribed = before if heartbeat.topics is None else frozenset(heartbeat.topics)
    rack_id = known.profile.rack_id if known and heartbeat.rack_id is None else heartbeat.rack_id
    stream_id = known.profile.stream_id if known and heartbeat.member_epoch else heartbeat.stream_id
    profile = Profile(rack_id, heartbeat.client_id, heartbeat.client_host, subscribed, stream_id)
    if known is None or profile != known.profile:
        draft.put(MemberRecord(heartbeat.group_id, heartbeat.member_id, profile))
    return known is None or subscribed != before


def _subscribed_topics(group: ShareGroup, view: ClusterView) -> list[Topic]:
    found = (view.topic(name) for name in sorted(group.subscribed))
    return [topic for topic in found if topic is not None]


def _raise_epoch(
    draft: Draft, topics: list[Topic], subscription_changed: bool, busy: Set[TopicIdPartition]
) -> None:
    """One step up when there is a reason to, whatever the number of reasons."""
    group = draft.group
    metadata_hash = sum(topic.fingerprint for topic in topics) & _HASH_MASK
    if (
        subscription_changed
        or metadata_hash != group.metadata_hash
        or _unassigned(group, topics)
        or share_state.interrupted(group, topics, busy)
    ):
        draft.raise_epoch(metadata_hash)


def _unassigned(group: ShareGroup, topics: list[Topic]) -> bool:
    """Whether there is state that the target assignment, being up to date otherwise, does not know of."""
    if group.assignment_epoch < group.epoch:
        return False
    return group.covered != share_state.initialized(group, topics)


def _initialize(draft: Draft, topics: list[Topic], around: Circumstances) -> InitializeState | None:
    wanted = share_state.want(draft, topics, around.busy, int(around.now * 1000))
    if not wanted:
        return None
    group = draft.group
    offsets = {some: group.topics[some.topic_id].start_offset(some.partition) for some in sorted(wanted)}
    since = {topic_id: group.topics[topic_id].since_epoch for topic_id, _ in wanted}
    return InitializeState(group.group_id, group.epoch, offsets, since)


def _assign(draft: Draft, topics: list[Topic]) -> None:
    group = draft.group
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
            draft.put(TargetRecord(group.group_id, member_id, target))
    draft.put(TargetEpochRecord(group.group_id, group.epoch))


def _reconcile(draft: Draft, member_id: str) -> bool:
    """Brings the member to the target assignment; tells whether its partitions changed."""
    group = draft.group
    member = group.members[member_id]
    due = _within_subscription(group.topics, member)
    if member.epoch == group.assignment_epoch and member.assigned == due:
        return False
    previous = member.epoch if member.epoch != group.assignment_epoch else member.previous_epoch
    draft.put(CurrentRecord(group.group_id, member_id, group.assignment_epoch, previous, due))
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
    heartbeat: Heartbeat,
    around: Circumstances,
    changed: bool,
    initialize: InitializeState | None,
) -> HeartbeatReply:
    member = group.members[heartbeat.member_id]
    full = changed or heartbeat.member_epoch == 0 or heartbeat.topics is not None
    return HeartbeatReply(
        heartbeat.member_id,
        member.epoch,
        around.view.group_config(group.group_id).share_heartbeat_interval_ms,
        member.assigned if full else None,
        initialize,
        pending=any(
            state.initializing for state in group.topics.values() if state.name in member.profile.subscribed
        ),
    )
