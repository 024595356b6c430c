"""What an export contains of the stored state of a cluster: topics, settings, groups and share state.

Share state is read first, then the groups, then the logs. So the logs have every record that the state names,
unless retention deletes it meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.records import ConfigRecord, TopicRecord
from sharebroker_server.catalog.topics import SHARE_STATE_STORAGE, ResourceType, Topic
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import OffsetRecord
from sharebroker_server.group_coordinator.core.machine import GroupMachine
from sharebroker_server.group_coordinator.core.share_groups.group import (
    GroupRecord,
    ShareGroup,
    StateRecord,
    TopicState,
)
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint

GroupArchiveRecord = GroupRecord | StateRecord | OffsetRecord
ArchiveRecord = TopicRecord | ConfigRecord | GroupArchiveRecord | ShareCheckpoint
"""What an archive contains beside the records of topics."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Patterns of the names of topics and groups, as in a shell; without any, all are selected."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()

    def has_topic(self, name: str) -> bool:
        """Returns whether a topic is selected."""
        return _matches(name, self.topics)

    def has_group(self, group_id: str) -> bool:
        """Returns whether a group is selected."""
        return _matches(group_id, self.groups)

    def unmatched(self, topics: Collection[str], groups: Collection[str]) -> list[str]:
        """Returns the patterns that select nothing among these names."""
        return [
            pattern
            for patterns, names in ((self.topics, topics), (self.groups, groups))
            for pattern in patterns
            if not any(fnmatchcase(name, pattern) for name in names)
        ]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def select_topics(catalog: TopicCatalog, selection: Selection) -> list[Topic]:
    """Returns the selected topics, sorted by name."""
    return [topic for topic in catalog.topics() if selection.has_topic(topic.name)]


def check_state_is_apart(topics: Iterable[Topic]) -> None:
    """Raises ArchiveError if logs of the topics have share state: an archive has no place for it."""
    names = sorted(topic.name for topic in topics if topic.state_in_log)
    if names:
        raise ArchiveError(
            f"{', '.join(names)}: with {SHARE_STATE_STORAGE}=log (a preview) a topic cannot be exported or "
            "imported. Select other topics with --topic."
        )


def archive_records(
    catalog: TopicCatalog,
    machines: Iterable[GroupMachine],
    states: Iterable[ShareCheckpoint],
    selection: Selection,
) -> Iterator[ArchiveRecord]:
    """Yields what belongs to the selection: topics, group configs, groups, offsets and share state.

    `states` were read before `machines`. A share-partition whose state was not read is initialised when a
    member joins the imported group. Raises ArchiveError for topics with share state in their logs.
    """
    topics = {topic.topic_id: topic for topic in select_topics(catalog, selection)}
    check_state_is_apart(topics.values())
    yield from map(TopicRecord, topics.values())
    for resource, configs in catalog.dynamic_configs.items():
        if resource.type is ResourceType.GROUP and selection.has_group(resource.name):
            yield from (ConfigRecord(resource, key, value) for key, value in sorted(configs.items()))
    stored = {state.key: state for state in states if state.key.topic_id in topics}
    for machine in machines:
        for group in machine.shares.groups.values():
            if selection.has_group(group.group_id):
                yield from _share_group(group, topics.keys(), stored)
        for group_id in machine.consumers.offsets:
            if selection.has_group(group_id):
                offsets = machine.consumers.offsets.of(group_id).items()
                yield from (
                    OffsetRecord(group_id, partition, committed)
                    for partition, committed in offsets
                    if partition.topic_id in topics
                )


def _share_group(
    group: ShareGroup, topic_ids: Collection[str], stored: dict[SharePartitionKey, ShareCheckpoint]
) -> Iterator[ArchiveRecord]:
    """Yields a group without members, and the state of its partitions; nothing if it has none."""
    topics: dict[str, TopicState] = {}
    states: list[ShareCheckpoint] = []
    for topic_id, known in group.topics.items():
        if topic_id not in topic_ids:
            continue
        found = {
            partition: state
            for partition in known.partitions - known.deleting
            if (state := stored.get(SharePartitionKey(group.group_id, topic_id, partition))) is not None
        }
        states += found.values()
        topic = _with_state(known, found.keys())
        if topic.partitions:
            topics[topic_id] = topic
    if topics:
        yield GroupRecord(group.group_id, group.epoch, 0, group.since_epoch)
        yield StateRecord(group.group_id, topics)
        yield from states


def _with_state(known: TopicState, found: Collection[int]) -> TopicState:
    """Returns a topic whose partitions count as initialised only if their state was found."""
    initialized = known.initialized & set(found)
    missing = (known.initialized - initialized) | known.initializing.keys()
    initializing = {partition: known.initializing.get(partition, known.known_since) for partition in missing}
    return replace(known, initialized=initialized, initializing=initializing, deleting=frozenset())


def group_ids(records: Iterable[ArchiveRecord]) -> set[str]:
    """Returns the ids of the groups among the records."""
    return {record.group_id for record in records if isinstance(record, GroupRecord | OffsetRecord)}
