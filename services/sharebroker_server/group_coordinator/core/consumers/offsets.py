"""Offsets that consumer groups have committed: the part of them that is in the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumers.commands import Committed


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """What a group has committed of a partition; None when that is forgotten (Kafka: OffsetCommitKey)."""

    group_id: str
    partition: TopicIdPartition
    committed: Committed | None

    @property
    def key(self) -> tuple[str, str, str]:
        """See `sharebroker_server.group_coordinator.core.records.Key`; the last part is of `named`."""
        return (OFFSET, self.group_id, f"{self.partition.topic_id}:{self.partition.partition}")


OFFSET = "offset"


def named(name: str) -> TopicIdPartition:
    """The partition of the last part of a key."""
    topic_id, _, partition = name.rpartition(":")
    return TopicIdPartition(topic_id, int(partition))


class CommittedOffsets:
    """Changed by `apply` only; no group stands here without an offset."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicIdPartition, Committed]] = {}

    def apply(self, record: OffsetRecord) -> None:
        """Takes a record in."""
        if record.committed is not None:
            self._groups.setdefault(record.group_id, {})[record.partition] = record.committed
            return
        kept = self._groups.get(record.group_id, {})
        kept.pop(record.partition, None)
        if not kept:
            self._groups.pop(record.group_id, None)

    def of(self, group_id: str) -> Mapping[TopicIdPartition, Committed]:
        """All that a group has committed."""
        return self._groups.get(group_id, {})

    def record(self, group_id: str, name: str) -> OffsetRecord:
        """What is committed, to be written anew; `name` is the last part of its key."""
        partition = named(name)
        return OffsetRecord(group_id, partition, self._groups[group_id][partition])

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)
