"""What an import writes into the cluster: the records of an archive, with the ids, names and epochs there.

Topic ids are kept unless the cluster has had a topic with the same id. Epochs never decrease: the group epoch
is at least that of the archive, and so is the lease epoch of each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sharebroker_server.broker.core.archive_contents import ArchivedPartition, ArchiveError
from sharebroker_server.broker.core.archive_selection import (
    ArchiveRecord,
    GroupArchiveRecord,
    Selection,
    group_ids,
)
from sharebroker_server.broker.core.archive_topics import Choices, PlannedTopics, TargetCluster, plan_topics
from sharebroker_server.catalog.records import ConfigRecord, TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import OffsetRecord
from sharebroker_server.group_coordinator.core.machine import GroupMachine
from sharebroker_server.group_coordinator.core.share_groups.group import GroupRecord, ShareGroup, StateRecord
from sharebroker_server.leases import names
from sharebroker_server.record_log.core.snapshots import NOTE_NAME
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint
from sharebroker_server.share_partition_leader.core.letter_note import with_source_topic


class GroupsByShard:
    """The groups of the cluster; `shard_of` returns the shard of a group, of so many."""

    def __init__(self, machines: Sequence[GroupMachine], shard_of: Callable[[str, int], int]) -> None:
        self._machines = machines
        self._shard_of = shard_of

    def share_group(self, group_id: str) -> ShareGroup | None:
        """Returns a share group."""
        return self._machine(group_id).shares.groups.get(group_id)

    def has_consumers(self, group_id: str) -> bool:
        """Returns whether a consumer group has this id."""
        return self._machine(group_id).consumers.exists(group_id)

    def floor(self, group_id: str) -> int:
        """Returns the highest epoch of deleted groups in the shard of a group."""
        return self._machine(group_id).shares.floor

    def _machine(self, group_id: str) -> GroupMachine:
        return self._machines[self._shard_of(group_id, len(self._machines))]


@dataclass(slots=True)
class ImportPlan:
    """What to write. The catalog is written last: before, no server uses the topics."""

    planned: PlannedTopics
    states: list[ShareCheckpoint] = field(default_factory=list)
    groups: list[GroupArchiveRecord] = field(default_factory=list)

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics to create, by their ids in the archive."""
        return self.planned.topics

    def resource(self, partition: ArchivedPartition) -> str:
        """Returns the resource of a partition in the cluster."""
        return names.partition(self.topics[partition.topic_id].topic_id, partition.partition)

    def check_topics_of(self, earlier: ImportPlan) -> None:
        """Raises ArchiveError if an earlier plan creates other topics."""
        if self.topics != earlier.topics:
            raise ArchiveError("The topics of the cluster changed during the import. Repeat the command.")

    @property
    def group_ids(self) -> set[str]:
        """The ids of the groups."""
        return group_ids(self.groups)


def plan_import(
    archive_id: str,
    records: Iterable[ArchiveRecord],
    choices: Choices,
    target: TargetCluster,
    groups: GroupsByShard,
) -> ImportPlan:
    """Returns the plan. The catalog of `target` has the topics afterwards.

    Raises ArchiveError for existing topics, and for what the cluster does not accept.
    """
    listed = list(records)
    _check_patterns(listed, choices.selection)
    plan = ImportPlan(plan_topics(archive_id, listed, choices, target))
    stored = [record for record in listed if not isinstance(record, TopicRecord | ConfigRecord)]
    _plan_groups(plan, stored, choices.selection, groups)
    return plan


def _check_patterns(records: Sequence[ArchiveRecord], selection: Selection) -> None:
    """Raises ArchiveError if a pattern selects nothing."""
    topics = {record.topic.name for record in records if isinstance(record, TopicRecord)}
    if missing := selection.unmatched(topics, group_ids(records)):
        raise ArchiveError(f"The archive has no topic or group {', '.join(map(repr, missing))}.")


def new_notes(notes: Mapping[str, bytes], topics: Mapping[str, Topic]) -> dict[str, bytes]:
    """Returns the snapshots of a partition with the ids that the source topics of dead letters have now."""
    ids = {archived: topic.topic_id for archived, topic in topics.items()}
    return {_new_name(name, ids): note for name, note in notes.items()}


def _new_name(name: str, ids: Mapping[str, str]) -> str:
    if not name.startswith(NOTE_NAME):
        return name
    return NOTE_NAME + with_source_topic(name.removeprefix(NOTE_NAME), ids)


def _plan_groups(
    plan: ImportPlan, records: Sequence[ArchiveRecord], selection: Selection, groups: GroupsByShard
) -> None:
    for record in records:
        match record:
            case GroupRecord(group_id) | StateRecord(group_id) | OffsetRecord(group_id):
                if selection.has_group(group_id):
                    _plan_group_record(plan, record, groups)
            case ShareCheckpoint(key):
                topic = plan.topics.get(key.topic_id)
                if topic is not None and selection.has_group(key.group_id):
                    # The state has no deltas here, which would name a checkpoint epoch.
                    key = key._replace(topic_id=topic.topic_id)
                    plan.states.append(record._replace(key=key, checkpoint_epoch=0))
    named = {record.group_id for record in plan.groups if isinstance(record, StateRecord)}
    # A group without an imported topic is left out.
    plan.groups = [
        record for record in plan.groups if not isinstance(record, GroupRecord) or record.group_id in named
    ]


def _plan_group_record(plan: ImportPlan, record: GroupArchiveRecord, groups: GroupsByShard) -> None:
    group_id = record.group_id
    there = groups.share_group(group_id)
    if isinstance(record, OffsetRecord):
        topic = plan.topics.get(record.partition.topic_id)
        if topic is None:
            return
        if there is not None:
            raise ArchiveError(f"{group_id} is a consumer group in the archive, and a share group here.")
        partition = record.partition._replace(topic_id=topic.topic_id)
        plan.groups.append(replace(record, partition=partition))
        return
    if groups.has_consumers(group_id):
        raise ArchiveError(f"{group_id} is a share group in the archive, and a consumer group here.")
    if isinstance(record, GroupRecord):
        plan.groups.append(_merged_group(record, there, groups.floor(group_id)))
        return
    topics = {
        plan.topics[topic_id].topic_id: replace(state, name=plan.topics[topic_id].name)
        for topic_id, state in record.topics.items()
        if topic_id in plan.topics
    }
    if topics:
        known = {} if there is None else there.topics
        plan.groups.append(StateRecord(group_id, {**known, **topics}))


def _merged_group(record: GroupRecord, there: ShareGroup | None, floor: int) -> GroupRecord:
    """Returns the group; its epoch is at least those of the archive, of the group here, of deleted groups."""
    epoch = record.epoch or 0
    if there is None and floor:
        since_epoch = max(record.since_epoch, floor + 1)
        return replace(record, epoch=max(epoch, floor + 1), since_epoch=since_epoch)
    if there is None:
        return record
    # Members receive a new assignment at a higher epoch.
    raised = max(epoch, there.epoch) + bool(there.members)
    return GroupRecord(record.group_id, raised, there.metadata_hash, there.since_epoch)
