"""What happened to the records that a share group has of a topic, counted in offsets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sharebroker_protocol.model import AckBatch, AckType, AcquiredRange, RecordState
from sharebroker_server.share_partition_leader.core.in_flight import Transition
from sharebroker_server.share_partition_leader.core.values import Completed, LostLock

_COUNTED_TYPES: Final = (AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW)


class Counts:
    """Counters that the share-partitions of a group and a topic share.

    `acknowledged` counts acknowledgements by AckType. Archived offsets were rejected, reached the delivery
    limit, or have no record for consumers (gap, aborted transaction, marker). `fetches` counts fetches of one
    of the share-partitions, `fetches_with_records` those that returned records.
    """

    __slots__ = (
        "aborted",
        "acknowledged",
        "acquired",
        "exhausted",
        "fetches",
        "fetches_with_records",
        "gaps",
        "lost",
        "redelivered",
        "rejected",
        "unseen",
    )

    def __init__(self) -> None:
        self.fetches = 0
        self.fetches_with_records = 0
        self.acquired = 0
        self.redelivered = 0
        self.unseen = 0
        self.lost = 0
        self.acknowledged = [0] * len(AckType)
        self.rejected = 0
        self.exhausted = 0
        self.gaps = 0
        self.aborted = 0

    def acquire(self, acquired: Sequence[AcquiredRange]) -> None:
        """Records were handed out."""
        for piece in acquired:
            size = piece.last - piece.first + 1
            self.acquired += size
            if piece.delivery_count > 1:
                self.redelivered += size

    def acknowledge(self, batches: Sequence[AckBatch]) -> None:
        """Acknowledgements were taken."""
        acknowledged = self.acknowledged
        for first, last, types, _ in batches:
            if len(types) == 1:
                acknowledged[types[0]] += last - first + 1
            else:
                for kind in _COUNTED_TYPES:
                    acknowledged[kind] += types.count(kind)

    def complete(self, transitions: Collection[Transition], completed: Completed) -> None:
        """Transitions took effect. What the log dropped meanwhile was not archived by them."""
        exhausted = completed.archived
        for transition in transitions:
            self.rejected += transition.rejected
            self.gaps += transition.gaps
            exhausted -= transition.rejected + transition.gaps
        self.exhausted += max(exhausted, 0)

    def lose(self, lost: Sequence[LostLock]) -> None:
        """Locks ran out."""
        for lock in lost:
            size = lock.last - lock.first + 1
            self.lost += size
            if lock.state is RecordState.ARCHIVED:
                self.exhausted += size

    def merge(self, other: Counts) -> None:
        """Count what another counted, which nobody goes on with."""
        self.acknowledged = [
            mine + its for mine, its in zip(self.acknowledged, other.acknowledged, strict=True)
        ]
        for name in self.__slots__:
            if name != "acknowledged":
                setattr(self, name, getattr(self, name) + getattr(other, name))
