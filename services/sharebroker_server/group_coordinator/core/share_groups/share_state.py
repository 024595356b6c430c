"""The partitions of a share group that have share state, and how a decision changes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.records import Topic
from sharebroker_server.group_coordinator.core.records import GroupRecord, StateRecord
from sharebroker_server.group_coordinator.core.share_groups.model import Assignment, ShareGroup, TopicState
from sharebroker_server.group_coordinator.core.share_groups.pending_group import PendingGroup
from sharebroker_server.group_coordinator.core.view import ClusterView


def put_topics(pending: PendingGroup, changed: Mapping[str, TopicState]) -> None:
    """Records changed states by topic id, if any differs; a state without partitions is dropped."""
    merged = {**pending.group.topics, **changed}
    topics = {topic_id: state for topic_id, state in merged.items() if state.partitions}
    if topics != pending.group.topics:
        pending.add(StateRecord(pending.group.group_id, topics))


def forget_deleted_topics(pending: PendingGroup, view: ClusterView) -> None:
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
    """Records that those of `done` that are being initialised have state."""
    changed: dict[str, TopicState] = {}
    for topic_id, partition in done:
        state = changed.get(topic_id) or pending.group.topics.get(topic_id)
        if state is not None and partition in state.initializing:
            remaining = {other: since for other, since in state.initializing.items() if other != partition}
            changed[topic_id] = replace(
                state, initializing=remaining, initialized=state.initialized | {partition}
            )
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
    """Records that those of `done` that are being deleted have no state.

    A topic with a failed partition stays as it is: deleting twice is harmless, but a partition missing from
    a known topic would count as added to the topic later.
    """
    kept = {topic_id for topic_id, _ in failed}
    changed: dict[str, TopicState] = {}
    for topic_id, partition in done:
        state = changed.get(topic_id) or pending.group.topics.get(topic_id)
        if state is not None and topic_id not in kept:
            changed[topic_id] = replace(state, deleting=state.deleting - {partition})
    put_topics(pending, changed)


def initialized(group: ShareGroup, topics: Iterable[Topic]) -> Assignment:
    """Returns the partitions of these topics that have state and can be assigned."""
    found = {
        topic.topic_id: group.topics[topic.topic_id].initialized
        for topic in topics
        if topic.topic_id in group.topics
    }
    return {topic_id: partitions for topic_id, partitions in found.items() if partitions}
