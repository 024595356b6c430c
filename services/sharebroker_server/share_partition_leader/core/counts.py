"""What happened to the records that a share group has of a topic, counted in offsets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sharebroker_protocol.model import AckBatch, AckType, AcquiredRange, RecordState
from sharebroker_server.share_partition_leader.core.in_flight import Transition
from sharebroker_server.share_partition_leader.core.values import Freed, LostLock

SAID: Final = (AckType.ACCEPT, AckType.RELEASE, AckType.REJECT, AckType.RENEW)


class Counts:
    """Shared by the share-partitions of a group and a topic.

    `said` counts acknowledgements by AckType; what was archived was rejected, had used up its attempts, or
    is not there to be delivered: a gap in the log, or of an aborted transaction, or its marker.
    `asked` is how often a fetch asked one of them, `found` how often it got records there.
    """

    __slots__ = (
        "aborted",
        "acquired",
        "asked",
        "exhausted",
        "found",
        "gaps",
        "lost",
        "redelivered",
        "rejected",
        "said",
        "unseen",
    )

    def __init__(self) -> None:
        self.asked = 0
        self.found = 0
        self.acquired = 0
        self.redelivered = 0
        self.unseen = 0
        self.lost = 0
        self.said = [0] * len(AckType)
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
        said = self.said
        for first, last, types, _ in batches:
            if len(types) == 1:
                said[types[0]] += last - first + 1
            else:
                for kind in SAID:
                    said[kind] += types.count(kind)

    def complete(self, transitions: Collection[Transition], freed: Freed) -> None:
        """Transitions took effect. What the log dropped meanwhile was not archived by them."""
        exhausted = freed.archived
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

    def take_in(self, other: Counts) -> None:
        """Count what another counted, which nobody goes on with."""
        self.said = [mine + its for mine, its in zip(self.said, other.said, strict=True)]
        for name in self.__slots__:
            if name != "said":
                setattr(self, name, getattr(self, name) + getattr(other, name))
