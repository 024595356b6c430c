"""A watch by share-partitions that have no records (sharebroker_server.share_calls.values.Watch)."""

from __future__ import annotations

from collections.abc import Sequence

from sharebroker_server.share_calls.watches import StandingWatch
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition


class ShareWatch(StandingWatch):
    """Waits at every share-partition at once; what one of them tells ends it."""

    __slots__ = ("_share_partitions",)

    def __init__(self, share_partitions: Sequence[ShareGroupPartition]) -> None:
        super().__init__()
        self._share_partitions = share_partitions
        for share_partition in share_partitions:
            share_partition.add_listener(self)

    def records_available(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available."""
        self.end()

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """Another one is to be asked."""
        self.end()

    def _leave(self) -> None:
        for share_partition in self._share_partitions:
            share_partition.remove_listener(self)
