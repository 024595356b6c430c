"""A watch of share-partitions without records (see leader_calls.values.RecordsWatch)."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from sharebroker_server.leader_calls.watches import BaseWatch
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition


class LocalWatch(BaseWatch):
    """Waits at every share-partition; the first notification ends it."""

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
        """The share-partition was unloaded: a fetch has to find its successor."""
        self.end()

    @override
    def _stop(self) -> None:
        for share_partition in self._share_partitions:
            share_partition.remove_listener(self)
