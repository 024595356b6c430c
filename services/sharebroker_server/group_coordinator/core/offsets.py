"""Administration of a group without members: moving start offsets, forgetting topics or the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.records import Topic
from sharebroker_server.group_coordinator.core import share_state
from sharebroker_server.group_coordinator.core.commands import (
    AlterOffsets,
    AlterPlan,
    DeleteOffsets,
    DeletePlan,
    InitializeState,
    StateDeleted,
)
from sharebroker_server.group_coordinator.core.model import TopicState, by_topic
from sharebroker_server.group_coordinator.core.pending_group import Draft
from sharebroker_server.group_coordinator.core.records import GroupRecord
from sharebroker_server.group_coordinator.core.validation import check_empty
from sharebroker_server.group_coordinator.core.view import ClusterView

Refusals = dict[tuple[str, int], KafkaError]


def alter(draft: Draft, command: AlterOffsets, view: ClusterView, now_ms: int) -> AlterPlan:
    """Start offsets to initialise at a higher state epoch, which fences leaders that hold the old state.

    Raises NON_EMPTY_GROUP; a partition that is not there, or an offset below 0, is refused alone.
    """
    check_empty(draft.group.group_id, draft.group.members)
    share_state.forget_deleted_topics(draft, view)
    offsets, refused = _alterable(command, view)
    group_id = draft.group.group_id
    if offsets:
        draft.raise_epoch()
        topics = {topic.topic_id: topic for name, _ in command.offsets if (topic := view.topic(name))}
        share_state.put_topics(draft, _known_topics(draft, offsets, topics, now_ms))
    return AlterPlan(InitializeState(group_id, draft.group.epoch, offsets), refused)


def forget_topics(draft: Draft, command: DeleteOffsets, view: ClusterView) -> DeletePlan:
    """State to delete. Raises NON_EMPTY_GROUP; a topic without state is refused alone."""
    check_empty(draft.group.group_id, draft.group.members)
    share_state.forget_deleted_topics(draft, view)
    chosen: list[str] = []
    refused: dict[str, KafkaError] = {}
    for name in command.topics:
        topic = view.topic(name)
        state = draft.group.topics.get(topic.topic_id) if topic else None
        if topic is None:
            refused[name] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
        elif state is None or not state.initialized | state.deleting:
            refused[name] = KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
            )
        else:
            chosen.append(topic.topic_id)
    return DeletePlan(share_state.mark_deleting(draft, chosen), draft.group.epoch, refused)


def forget_group(draft: Draft, view: ClusterView) -> DeletePlan:
    """State to delete before the group can go; without any it goes at once. Raises NON_EMPTY_GROUP."""
    check_empty(draft.group.group_id, draft.group.members)
    share_state.forget_deleted_topics(draft, view)
    partitions = share_state.mark_deleting(draft, tuple(draft.group.topics))
    plan = DeletePlan(partitions, draft.group.epoch)
    if not partitions:
        draft.put(GroupRecord(draft.group.group_id, None))
    return plan


def finish_deletion(draft: Draft, command: StateDeleted) -> bool:
    """Takes the outcome of a deletion in; tells whether the group is gone."""
    share_state.mark_deleted(draft, command.done, command.failed)
    gone = command.with_group and not (draft.group.members or draft.group.topics)
    if gone:
        draft.put(GroupRecord(draft.group.group_id, None))
    return gone


def _alterable(command: AlterOffsets, view: ClusterView) -> tuple[dict[TopicIdPartition, int], Refusals]:
    offsets: dict[TopicIdPartition, int] = {}
    refused: Refusals = {}
    for (name, partition), offset in command.offsets.items():
        topic = view.topic(name)
        if topic is None or not 0 <= partition < topic.partitions:
            refused[name, partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif offset < 0:
            refused[name, partition] = KafkaError(ErrorCode.INVALID_REQUEST, f"{offset} is no start offset.")
        else:
            offsets[TopicIdPartition(topic.topic_id, partition)] = offset
    return offsets, refused


def _known_topics(
    draft: Draft, offsets: Iterable[TopicIdPartition], topics: Mapping[str, Topic], now_ms: int
) -> dict[str, TopicState]:
    """The topics with their altered partitions being initialised, unless they have state already.

    The group knows the whole topic from here on, so its other partitions are to be initialised too when a
    member comes: they were not added later.
    """
    changed: dict[str, TopicState] = {}
    for topic_id, partitions in by_topic(offsets).items():
        known = draft.group.topics.get(topic_id)
        if known is None:
            topic = topics[topic_id]
            all_of_it = dict.fromkeys(range(topic.partitions), now_ms)
            since_epoch = draft.group.since_epoch
            changed[topic_id] = TopicState(topic.name, now_ms, all_of_it, since_epoch=since_epoch)
        else:
            missing = dict.fromkeys(partitions - known.initialized, known.known_since)
            changed[topic_id] = replace(
                known, initializing={**missing, **known.initializing}, deleting=known.deleting - partitions
            )
    return changed
