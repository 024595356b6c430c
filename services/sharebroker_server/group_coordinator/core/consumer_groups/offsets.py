"""Committed offsets of consumer groups: the part of their state that is in the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumer_groups.commands import Committed


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """A group's committed offset of a partition; None deletes it (Kafka: OffsetCommitKey)."""

    group_id: str
    partition: TopicIdPartition
    committed: Committed | None

    @property
    def key(self) -> tuple[str, str, str]:
        """The key (`core.records.Key`); `named` parses its last part."""
        return (OFFSET, self.group_id, f"{self.partition.topic_id}:{self.partition.partition}")


OFFSET = "offset"


def named(name: str) -> TopicIdPartition:
    """Returns the partition that the last part of a key names."""
    topic_id, _, partition = name.rpartition(":")
    return TopicIdPartition(topic_id, int(partition))


class CommittedOffsets:
    """Changes by `apply` only; contains no group without an offset."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicIdPartition, Committed]] = {}

    def apply(self, record: OffsetRecord) -> None:
        """Applies a record."""
        if record.committed is not None:
            self._groups.setdefault(record.group_id, {})[record.partition] = record.committed
            return
        offsets = self._groups.get(record.group_id, {})
        offsets.pop(record.partition, None)
        if not offsets:
            self._groups.pop(record.group_id, None)

    def of(self, group_id: str) -> Mapping[TopicIdPartition, Committed]:
        """Returns the committed offsets of a group."""
        return self._groups.get(group_id, {})

    def record(self, group_id: str, name: str) -> OffsetRecord:
        """Returns the record of a committed offset; `name` is the last part of its key."""
        partition = named(name)
        return OffsetRecord(group_id, partition, self._groups[group_id][partition])

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)
