"""What the calls need of the partitions that this process leads (see `leadership.Leadership`)."""

from __future__ import annotations

from typing import Protocol

from sharebroker_server.share_partition_leader.leadership.led_partition import LedPartition
from sharebroker_server.share_partition_leader.partition.lock_holders import EndedSessions
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition


class SharePartitions(Protocol):
    """Finds share-partitions."""

    @property
    def ended_sessions(self) -> EndedSessions:
        """Share sessions that ended recently."""

    def loaded(self, group_id: str, topic_id: str, partition: int) -> ShareGroupPartition | None:
        """The share-partition if it is led, loaded and not retired; valid until the next `await`."""

    async def share_partition(self, group_id: str, topic_id: str, partition: int) -> ShareGroupPartition:
        """The share-partition, loaded if necessary. Raises KafkaError."""

    async def led(self, topic_id: str, partition: int) -> LedPartition:
        """The partition, claimed if necessary. Raises KafkaError."""

    def partitions(self) -> list[LedPartition]:
        """All led partitions."""
