"""The partitions of a share group that have share state, and how a decision changes them.

A heartbeat has missing state initialised. The administration of a group without members sets start offsets,
and deletes the state of topics or of the whole group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage
from sharebroker_server.group_coordinator.core.share_groups import commands as c
from sharebroker_server.group_coordinator.core.share_groups import share_state
from sharebroker_server.group_coordinator.core.share_groups.group import (
    Assignment,
    GroupRecord,
    PendingGroup,
    ShareGroup,
    StateRecord,
    TopicState,
    by_topic,
)
from sharebroker_server.group_coordinator.core.validation import check_empty

Rejections = dict[tuple[str, int], KafkaError]


def put_topics(pending: PendingGroup, changed: Mapping[str, TopicState]) -> None:
    """Records changed states by topic id, if any differs; a state without partitions is dropped."""
    merged = {**pending.group.topics, **changed}
    topics = {topic_id: state for topic_id, state in merged.items() if state.partitions}
    if topics != pending.group.topics:
        pending.add(StateRecord(pending.group.group_id, topics))


def forget_deleted_topics(pending: PendingGroup, view: MetadataImage) -> None:
    """Drops deleted topics; their share state is deleted with them."""
    group = pending.group
    existing = {topic_id: state for topic_id, state in group.topics.items() if not view.is_deleted(topic_id)}
    if len(existing) != len(group.topics):
        pending.add(StateRecord(group.group_id, existing))


def begin_missing(
    pending: PendingGroup, topics: Iterable[Topic], busy: Set[TopicIdPartition], now_ms: int
) -> set[TopicIdPartition]:
    """Records that all partitions of `topics` are to have state; returns those to initialise now.

    Partitions that have state, or are `busy` (being initialised or deleted), are left out. An initialisation
    that an earlier owner of the shard did not finish starts again.
    """
    changed: dict[str, TopicState] = {}
    missing: set[TopicIdPartition] = set()
    for topic in topics:
        state = pending.group.topics.get(topic.topic_id)
        if state is None:
            state = TopicState(topic.name, now_ms, since_epoch=pending.group.since_epoch)
        numbers = {
            partition
            for partition in range(topic.partitions)
            if partition not in state.initialized and (topic.topic_id, partition) not in busy
        }
        if numbers:
            changed[topic.topic_id] = _initializing(state, numbers, now_ms)
            missing |= {TopicIdPartition(topic.topic_id, partition) for partition in numbers}
    put_topics(pending, changed)
    return missing


def interrupted(group: ShareGroup, topics: Iterable[Topic], busy: Set[TopicIdPartition]) -> bool:
    """Whether an initialisation began and its outcome is unknown.

    It may still reach the share coordinator, so the next one needs a higher state epoch to win over it.
    """
    return any(
        (topic.topic_id, partition) not in busy
        for topic in topics
        if topic.topic_id in group.topics
        for partition in group.topics[topic.topic_id].initializing
    )


def _initializing(state: TopicState, partitions: Set[int], now_ms: int) -> TopicState:
    # Partitions of a new topic, and partitions whose state was being deleted, were not added to the topic.
    later = max(now_ms, state.known_since + 1)
    new = partitions - state.partitions if state.partitions else frozenset[int]()
    since = {partition: later if partition in new else state.known_since for partition in partitions}
    return replace(state, initializing={**since, **state.initializing}, deleting=state.deleting - partitions)


def mark_initialized(pending: PendingGroup, done: Iterable[TopicIdPartition]) -> None:
    """Marks the partitions of `done` that are being initialised as initialised."""
    changed: dict[str, TopicState] = {}
    for topic_id, partitions in by_topic(done).items():
        if state := pending.group.topics.get(topic_id):
            remaining = {key: since for key, since in state.initializing.items() if key not in partitions}
            initialized = state.initialized | (partitions & state.initializing.keys())
            changed[topic_id] = replace(state, initializing=remaining, initialized=initialized)
    put_topics(pending, changed)


def mark_deleting(pending: PendingGroup, topic_ids: Iterable[str]) -> frozenset[TopicIdPartition]:
    """Records that all state of these topics is being deleted; returns the partitions."""
    states = {topic_id: pending.group.topics[topic_id] for topic_id in topic_ids}
    # An initialisation after this one raises the epoch first.
    group, since = pending.group, pending.group.epoch + 1
    if states:
        pending.add(GroupRecord(group.group_id, group.epoch, group.metadata_hash, since))
    put_topics(
        pending,
        {
            topic_id: TopicState(state.name, state.known_since, deleting=state.partitions, since_epoch=since)
            for topic_id, state in states.items()
        },
    )
    return frozenset(
        TopicIdPartition(topic_id, partition)
        for topic_id, state in states.items()
        for partition in state.partitions
    )


def mark_deleted(
    pending: PendingGroup, done: Iterable[TopicIdPartition], failed: Iterable[TopicIdPartition]
) -> None:
    """Marks the partitions of `done` that are being deleted as deleted.

    A topic with a failed partition stays as it is: deleting twice is harmless, but a partition missing from
    a known topic would count as added to the topic later.
    """
    kept = {topic_id for topic_id, _ in failed}
    changed: dict[str, TopicState] = {}
    for topic_id, partitions in by_topic(done).items():
        state = pending.group.topics.get(topic_id)
        if state is not None and topic_id not in kept:
            changed[topic_id] = replace(state, deleting=state.deleting - partitions)
    put_topics(pending, changed)


def initialized(group: ShareGroup, topics: Iterable[Topic]) -> Assignment:
    """Returns the partitions of these topics that have state and can be assigned."""
    found = {
        topic.topic_id: group.topics[topic.topic_id].initialized
        for topic in topics
        if topic.topic_id in group.topics
    }
    return {topic_id: partitions for topic_id, partitions in found.items() if partitions}


def alter(pending: PendingGroup, command: c.AlterOffsets, view: MetadataImage, now_ms: int) -> c.AlterPlan:
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
    return c.AlterPlan(c.InitializeState(group_id, pending.group.epoch, offsets), rejected)


def forget_topics(pending: PendingGroup, command: c.DeleteOffsets, view: MetadataImage) -> c.DeletePlan:
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
    return c.DeletePlan(share_state.mark_deleting(pending, topic_ids), pending.group.epoch, rejected)


def forget_group(pending: PendingGroup, view: MetadataImage) -> c.DeletePlan:
    """Plans the deletion of a group's state; a group without state is deleted now. Raises NON_EMPTY_GROUP."""
    check_empty(pending.group.group_id, pending.group.members)
    share_state.forget_deleted_topics(pending, view)
    partitions = share_state.mark_deleting(pending, tuple(pending.group.topics))
    plan = c.DeletePlan(partitions, pending.group.epoch)
    if not partitions:
        pending.add(GroupRecord(pending.group.group_id, None))
    return plan


def finish_deletion(pending: PendingGroup, command: c.StateDeleted) -> bool:
    """Records the outcome of a deletion; returns whether the group is deleted."""
    share_state.mark_deleted(pending, command.done, command.failed)
    deleted = command.with_group and not (pending.group.members or pending.group.topics)
    if deleted:
        pending.add(GroupRecord(pending.group.group_id, None))
    return deleted


def _alterable(
    command: c.AlterOffsets, view: MetadataImage
) -> tuple[dict[TopicIdPartition, int], Rejections]:
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
