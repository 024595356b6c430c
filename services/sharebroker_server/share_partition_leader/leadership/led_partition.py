"""A partition this process leads: its log, who waits for it, and the share groups that read it."""

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
    """A partition's log, and the share-partitions on it by group: tasks, since loading takes a while.

    `ready` are those of them that are loaded and not retired. `readers` wait for the log to grow, without a
    group. `verifications` are what coordinators are asked about transactions, by producer id and epoch.
    `traces`: where this process traces.
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
        """Its number within the topic."""
        return names.topic_partition(self.log.partition)[1]

    def loaded(self) -> list[ShareGroupPartition]:
        """The share-partitions that are ready."""
        return list(self.ready.values())

    def wake(self) -> None:
        """Records were appended, or deleted."""
        for share_partition in self.loaded():
            share_partition.wake()
        self.wake_readers()

    def wake_readers(self) -> None:
        """The log has grown, or is given up."""
        for reader in self.readers:
            reader.set()
