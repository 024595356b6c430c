"""Chooses the partition of a record (Kafka: BuiltInPartitioner)."""

from __future__ import annotations

from collections.abc import Callable

from sharebroker_protocol.records.murmur2 import partition_of


class Partitioner:
    """Partitions records with a key by murmur2, and others to one sticky partition for `batch_size` bytes.

    There is one per topic. `choose(n)` returns a number in 0..n-1; it is called when the sticky partition
    changes.
    """

    __slots__ = ("_batch_size", "_bytes", "_choose", "_sticky")

    def __init__(self, batch_size: int, choose: Callable[[int], int]) -> None:
        self._batch_size = batch_size
        self._choose = choose
        self._sticky = -1
        self._bytes = 0

    def partition(self, key: bytes | None, size: int, partitions: int) -> int:
        """Returns the partition for a record of `size` bytes in a topic with `partitions` partitions."""
        if key is not None:
            return partition_of(key, partitions)
        if not 0 <= self._sticky < partitions or self._bytes >= self._batch_size:
            self._sticky = self._next(partitions)
            self._bytes = 0
        self._bytes += size
        return self._sticky

    def _next(self, partitions: int) -> int:
        """Returns a different partition than the present one, if there is one."""
        if partitions == 1 or not 0 <= self._sticky < partitions:
            return self._choose(partitions)
        return (self._sticky + 1 + self._choose(partitions - 1)) % partitions
