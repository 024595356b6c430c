"""Administration of a share group without members: start offsets, deletion of topics and of the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.records import Topic
from sharebroker_server.group_coordinator.core.commands import (
    AlterOffsets,
    AlterPlan,
    DeleteOffsets,
    DeletePlan,
    InitializeState,
    StateDeleted,
)
from sharebroker_server.group_coordinator.core.records import GroupRecord
from sharebroker_server.group_coordinator.core.share_groups import share_state
from sharebroker_server.group_coordinator.core.share_groups.model import TopicState, by_topic
from sharebroker_server.group_coordinator.core.share_groups.pending_group import PendingGroup
from sharebroker_server.group_coordinator.core.validation import check_empty
from sharebroker_server.group_coordinator.core.view import ClusterView

Rejections = dict[tuple[str, int], KafkaError]


def alter(pending: PendingGroup, command: AlterOffsets, view: ClusterView, now_ms: int) -> AlterPlan:
    """Plans new start offsets at a higher state epoch, which fences leaders with the old state.

    Raises NON_EMPTY_GROUP. An unknown partition or a negative offset is rejected alone.
    """
    check_empty(pending.group.group_id, pending.group.members)
    share_state.forget_deleted_topics(pending, view)
    offsets, rejected = _alterable(command, view)
    group_id = pending.group.group_id
    if offsets:
        pending.raise_epoch()
        topics = {topic.topic_id: topic for name, _ in command.offsets if (topic := view.topic(name))}
        share_state.put_topics(pending, _altered_topics(pending, offsets, topics, now_ms))
    return AlterPlan(InitializeState(group_id, pending.group.epoch, offsets), rejected)


def forget_topics(pending: PendingGroup, command: DeleteOffsets, view: ClusterView) -> DeletePlan:
    """Plans the deletion of topics' state.

    Raises NON_EMPTY_GROUP. A topic without state is rejected alone.
    """
    check_empty(pending.group.group_id, pending.group.members)
    share_state.forget_deleted_topics(pending, view)
    topic_ids: list[str] = []
    rejected: dict[str, KafkaError] = {}
    for name in command.topics:
        topic = view.topic(name)
        state = pending.group.topics.get(topic.topic_id) if topic else None
        if topic is None:
            rejected[name] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
        elif state is None or not state.initialized | state.deleting:
            rejected[name] = KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
            )
        else:
            topic_ids.append(topic.topic_id)
    return DeletePlan(share_state.mark_deleting(pending, topic_ids), pending.group.epoch, rejected)


def forget_group(pending: PendingGroup, view: ClusterView) -> DeletePlan:
    """Plans the deletion of a group's state; a group without state is deleted now. Raises NON_EMPTY_GROUP."""
    check_empty(pending.group.group_id, pending.group.members)
    share_state.forget_deleted_topics(pending, view)
    partitions = share_state.mark_deleting(pending, tuple(pending.group.topics))
    plan = DeletePlan(partitions, pending.group.epoch)
    if not partitions:
        pending.add(GroupRecord(pending.group.group_id, None))
    return plan


def finish_deletion(pending: PendingGroup, command: StateDeleted) -> bool:
    """Records the outcome of a deletion; returns whether the group is deleted."""
    share_state.mark_deleted(pending, command.done, command.failed)
    deleted = command.with_group and not (pending.group.members or pending.group.topics)
    if deleted:
        pending.add(GroupRecord(pending.group.group_id, None))
    return deleted


def _alterable(command: AlterOffsets, view: ClusterView) -> tuple[dict[TopicIdPartition, int], Rejections]:
    offsets: dict[TopicIdPartition, int] = {}
    rejected: Rejections = {}
    for (name, partition), offset in command.offsets.items():
        topic = view.topic(name)
        if topic is None or not 0 <= partition < topic.partitions:
            rejected[name, partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif offset < 0:
            rejected[name, partition] = KafkaError(
                ErrorCode.INVALID_REQUEST, f"{offset} is not a valid start offset."
            )
        else:
            offsets[TopicIdPartition(topic.topic_id, partition)] = offset
    return offsets, rejected


def _altered_topics(
    pending: PendingGroup, offsets: Iterable[TopicIdPartition], topics: Mapping[str, Topic], now_ms: int
) -> dict[str, TopicState]:
    """Returns the topics with their altered partitions being initialised, unless they have state already.

    A topic that is new to the group is added with all its partitions: when a member joins, the others are
    initialised too, and were not added to the topic later.
    """
    changed: dict[str, TopicState] = {}
    for topic_id, partitions in by_topic(offsets).items():
        state = pending.group.topics.get(topic_id)
        if state is None:
            topic = topics[topic_id]
            every = dict.fromkeys(range(topic.partitions), now_ms)
            since_epoch = pending.group.since_epoch
            changed[topic_id] = TopicState(topic.name, now_ms, every, since_epoch=since_epoch)
        else:
            missing = dict.fromkeys(partitions - state.initialized, state.known_since)
            changed[topic_id] = replace(
                state, initializing={**missing, **state.initializing}, deleting=state.deleting - partitions
            )
    return changed
