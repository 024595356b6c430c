"""A partition that this process leads: its log, long polls, and share-partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sharebroker_server.catalog.records import Topic
from sharebroker_server.leases import names
from sharebroker_server.record_log.core.producers import Verified
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition

if TYPE_CHECKING:
    from sharebroker_server.share_partition_leader.tracing.partition_traces import PartitionTraces


@dataclass(slots=True)
class LedPartition:
    """A partition's log and its share-partitions.

    `groups` are the tasks that load share-partitions, by group; `ready` are those that are loaded and not
    retired. `readers` are long polls without a group. `verifications` are requests to transaction
    coordinators, by producer id and epoch. `traces` is None if this process does not trace.
    """

    topic: Topic
    log: PartitionLog
    tokens: Iterator[int]
    groups: dict[str, asyncio.Task[ShareGroupPartition]] = field(default_factory=dict)
    ready: dict[str, ShareGroupPartition] = field(default_factory=dict)
    readers: set[asyncio.Event] = field(default_factory=set)
    verifications: dict[tuple[int, int], asyncio.Task[Verified]] = field(default_factory=dict)
    traces: PartitionTraces | None = None

    @property
    def partition(self) -> int:
        """The partition number."""
        return names.topic_partition(self.log.partition)[1]

    def loaded(self) -> list[ShareGroupPartition]:
        """The share-partitions that are ready."""
        return list(self.ready.values())

    def wake(self) -> None:
        """Notifies listeners and long polls that records were appended or deleted."""
        for share_partition in self.loaded():
            share_partition.wake()
        self.wake_readers()

    def wake_readers(self) -> None:
        """Notifies long polls that the log has grown, or was relinquished."""
        for reader in self.readers:
            reader.set()
