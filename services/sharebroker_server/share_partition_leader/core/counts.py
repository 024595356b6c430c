"""Counts, in offsets, of what happened to the records of one share group and topic."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sharebroker_protocol.model import AckBatch, AckType, AcquiredRange, RecordState
from sharebroker_server.share_partition_leader.core.in_flight import Transition
from sharebroker_server.share_partition_leader.core.values import Completed, LostLock

_COUNTED_TYPES: Final = (AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW)


class Counts:
    """Counters that the share-partitions of a group and a topic share.

    `acknowledged` counts by AckType. Archived records are counted by reason: `rejected`; `exhausted`, which
    reached the delivery limit; `gaps` in the log; `aborted`, of aborted transactions, with markers.
    `fetches` counts the share-partitions in fetches, `fetches_with_records` those that returned records.
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
        """Counts acquired records."""
        for item in acquired:
            size = item.last - item.first + 1
            self.acquired += size
            if item.delivery_count > 1:
                self.redelivered += size

    def acknowledge(self, batches: Sequence[AckBatch]) -> None:
        """Counts acknowledgements that were applied."""
        counts = self.acknowledged
        for first, last, types, _ in batches:
            if len(types) == 1:
                counts[types[0]] += last - first + 1
            else:
                for kind in _COUNTED_TYPES:
                    counts[kind] += types.count(kind)

    def complete(self, transitions: Collection[Transition], completed: Completed) -> None:
        """Counts what committed transitions archived, without records that the log deleted meanwhile."""
        exhausted = completed.archived
        for transition in transitions:
            self.rejected += transition.rejected
            self.gaps += transition.gaps
            exhausted -= transition.rejected + transition.gaps
        self.exhausted += max(exhausted, 0)

    def lose(self, lost: Sequence[LostLock]) -> None:
        """Counts lock timeouts."""
        for lock in lost:
            size = lock.last - lock.first + 1
            self.lost += size
            if lock.state is RecordState.ARCHIVED:
                self.exhausted += size

    def merge(self, other: Counts) -> None:
        """Adds the counts of another object, which is not used any more."""
        self.acknowledged = [
            mine + its for mine, its in zip(self.acknowledged, other.acknowledged, strict=True)
        ]
        for name in self.__slots__:
            if name != "acknowledged":
                setattr(self, name, getattr(self, name) + getattr(other, name))
