"""Producer ids, each given out once in the life of a cluster."""

from __future__ import annotations

from typing import Final

BLOCK: Final = 1000
"""Ids for each record (Kafka: the controller's blocks); a restart skips what was left of the last ones."""


class ProducerIds:
    """The ids of one of `shards` shards: `shard`, `shard + shards`, …

    `end` is how many may have been given out, durable. How many of the last block were is known here only.
    """

    __slots__ = ("_next", "_shard", "_shards", "_stop", "end")

    def __init__(self, shard: int, shards: int) -> None:
        self._shard = shard
        self._shards = shards
        self.end = 0
        self._next = self._stop = 0

    def take(self) -> tuple[int, int | None]:
        """An id, and the end to record with it where it begins a block."""
        end = None
        if not self._next < self._stop <= self.end:  # a block whose record was never applied is none
            self._next = self.end
            self._stop = end = self.end + BLOCK
        ordinal = self._next
        self._next += 1
        return ordinal * self._shards + self._shard, end
