"""Who is told of what happens to a share-partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sharebroker_server.share_partition_leader.core.values import LostLock

if TYPE_CHECKING:
    from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition


class Waiter(Protocol):
    """Who found no records: a stream or a fetch."""

    def look_again(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available."""

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """This object is not used any more; what was held through it is lost."""


class Consumer(Waiter, Protocol):
    """A stream."""

    holder: str

    def lock_lost(self, share_partition: ShareGroupPartition, lost: LostLock) -> None:
        """A lock of this consumer ran out."""
