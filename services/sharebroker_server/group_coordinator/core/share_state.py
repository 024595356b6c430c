"""Which partitions of a group have share state, and how that changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.records import Topic
from sharebroker_server.group_coordinator.core.model import Assignment, ShareGroup, TopicState
from sharebroker_server.group_coordinator.core.pending_group import Draft
from sharebroker_server.group_coordinator.core.records import GroupRecord, StateRecord
from sharebroker_server.group_coordinator.core.view import ClusterView


def put_topics(draft: Draft, changed: Mapping[str, TopicState]) -> None:
    """Records changed states by topic id; one without partitions is dropped. Nothing changed, no record."""
    merged = {**draft.group.topics, **changed}
    topics = {topic_id: state for topic_id, state in merged.items() if state.partitions}
    if topics != draft.group.topics:
        draft.put(StateRecord(draft.group.group_id, topics))


def forget_deleted_topics(draft: Draft, view: ClusterView) -> None:
    """Drops topics that are gone: their share state went with them."""
    group = draft.group
    left = {topic_id: state for topic_id, state in group.topics.items() if not view.is_deleted(topic_id)}
    if len(left) != len(group.topics):
        draft.put(StateRecord(group.group_id, left))


def want(
    draft: Draft, topics: Iterable[Topic], busy: Set[TopicIdPartition], now_ms: int
) -> set[TopicIdPartition]:
    """Notes that all partitions of `topics` are to have state; returns those to initialise now.

    Left out is what has state and what is `busy`, being initialised or deleted at the moment. What a
    coordinator before this one began and did not finish is begun again.
    """
    changed: dict[str, TopicState] = {}
    wanted: set[TopicIdPartition] = set()
    for topic in topics:
        state = draft.group.topics.get(topic.topic_id)
        if state is None:
            state = TopicState(topic.name, now_ms, since_epoch=draft.group.since_epoch)
        missing = {
            partition
            for partition in range(topic.partitions)
            if partition not in state.initialized and (topic.topic_id, partition) not in busy
        }
        if missing:
            changed[topic.topic_id] = _initializing(state, missing, now_ms)
            wanted |= {TopicIdPartition(topic.topic_id, partition) for partition in missing}
    put_topics(draft, changed)
    return wanted


def interrupted(group: ShareGroup, topics: Iterable[Topic], busy: Set[TopicIdPartition]) -> bool:
    """Whether an initialisation was begun, and it is not known how it ended.

    It may still reach the share coordinator, so the next attempt needs a higher state epoch to outlast it.
    """
    return any(
        (topic.topic_id, partition) not in busy
        for topic in topics
        if topic.topic_id in group.topics
        for partition in group.topics[topic.topic_id].initializing
    )


def _initializing(state: TopicState, partitions: Set[int], now_ms: int) -> TopicState:
    # Known are partitions of a new topic, and those whose state was being deleted.
    later = max(now_ms, state.known_since + 1)
    new = partitions - state.partitions if state.partitions else frozenset[int]()
    since = {partition: later if partition in new else state.known_since for partition in partitions}
    return replace(state, initializing={**since, **state.initializing}, deleting=state.deleting - partitions)


def mark_initialized(draft: Draft, done: Iterable[TopicIdPartition]) -> None:
    """Those of `done` that are still to be initialised have state now."""
    changed: dict[str, TopicState] = {}
    for topic_id, partition in done:
        state = changed.get(topic_id) or draft.group.topics.get(topic_id)
        if state is not None and partition in state.initializing:
            left = {other: since for other, since in state.initializing.items() if other != partition}
            changed[topic_id] = replace(state, initializing=left, initialized=state.initialized | {partition})
    put_topics(draft, changed)


def mark_deleting(draft: Draft, topic_ids: Iterable[str]) -> frozenset[TopicIdPartition]:
    """All state of these topics is to be deleted; returns the partitions."""
    states = {topic_id: draft.group.topics[topic_id] for topic_id in topic_ids}
    group, since = draft.group, draft.group.epoch + 1  # whoever wants state after this raises the epoch first
    if states:
        draft.put(GroupRecord(group.group_id, group.epoch, group.metadata_hash, since))
    put_topics(
        draft,
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


def mark_deleted(draft: Draft, done: Iterable[TopicIdPartition], failed: Iterable[TopicIdPartition]) -> None:
    """Those of `done` that are still to be deleted have no state now.

    A topic of which some failed stays as it is: deleting again does no harm, and a partition that is known no
    more while others of its topic are would count as added later.
    """
    kept = {topic_id for topic_id, _ in failed}
    changed: dict[str, TopicState] = {}
    for topic_id, partition in done:
        state = changed.get(topic_id) or draft.group.topics.get(topic_id)
        if state is not None and topic_id not in kept:
            changed[topic_id] = replace(state, deleting=state.deleting - {partition})
    put_topics(draft, changed)


def initialized(group: ShareGroup, topics: Iterable[Topic]) -> Assignment:
    """Of these topics, the partitions that have state and can be assigned."""
    found = {
        topic.topic_id: group.topics[topic.topic_id].initialized
        for topic in topics
        if topic.topic_id in group.topics
    }
    return {topic_id: partitions for topic_id, partitions in found.items() if partitions}
