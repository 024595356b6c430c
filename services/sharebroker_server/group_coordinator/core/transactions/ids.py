"""Producer ids: each is assigned once in the life of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from sharebroker_server.coordinator_runtime.machine import SoftChange

BLOCK: Final = 1000
"""Ids per record (Kafka: the controller's blocks); a restart skips the remaining ids of the last block."""


class IdRange(NamedTuple):
    """The remaining ids of the current block, as ordinals: `next` to before `stop`."""

    next: int
    stop: int


@dataclass(frozen=True, slots=True)
class IdsAssigned(SoftChange):
    """Ids were assigned: the remaining range of the block is another one from now on."""

    remaining: IdRange


class ProducerIds:
    """The ids of one of `shards` shards: `shard`, `shard + shards`, …

    `end` is durable: ordinals below it may have been assigned. `remaining` is soft state.
    """

    __slots__ = ("_shard", "_shards", "end", "remaining")

    def __init__(self, shard: int, shards: int) -> None:
        self._shard = shard
        self._shards = shards
        self.end = 0
        self.remaining = IdRange(0, 0)

    def id_of(self, ordinal: int) -> int:
        """Returns the producer id with an ordinal."""
        return ordinal * self._shards + self._shard


class IdAllocation:
    """Assigns ids within one decision without changing `ids`."""

    __slots__ = ("_before", "_ids", "end", "remaining")

    def __init__(self, ids: ProducerIds) -> None:
        self._ids = ids
        self._before = self.remaining = ids.remaining
        self.end = ids.end

    def new_id(self) -> int:
        """Returns the next id; begins a new block if the current one is used up."""
        if self.remaining.next >= self.remaining.stop:
            self.remaining = IdRange(self.end, self.end + BLOCK)
            self.end += BLOCK
        ordinal = self.remaining.next
        self.remaining = IdRange(ordinal + 1, self.remaining.stop)
        return self._ids.id_of(ordinal)

    @property
    def new_end(self) -> int | None:
        """The end to record; None if no block began."""
        return self.end if self.end != self._ids.end else None

    @property
    def soft(self) -> tuple[SoftChange, ...]:
        """The soft change of the decision; none if no id was assigned."""
        return () if self.remaining == self._before else (IdsAssigned(self.remaining),)
