"""Which partition a record without a chosen one goes to (Kafka: BuiltInPartitioner)."""

from __future__ import annotations

from collections.abc import Callable

from sharebroker_protocol.records.murmur2 import partition_of


class Partitioner:
    """Keys by murmur2; records without a key stick to one partition until `batch_size` bytes went there.

    One a topic. `choose(n)` gives a number in 0..n-1; it is asked once each time the partition changes.
    """

    __slots__ = ("_batch_size", "_bytes", "_choose", "_sticky")

    def __init__(self, batch_size: int, choose: Callable[[int], int]) -> None:
        self._batch_size = batch_size
        self._choose = choose
        self._sticky = -1
        self._bytes = 0

    def partition(self, key: bytes | None, size: int, partitions: int) -> int:
        """The partition for a record of `size` bytes when the topic has `partitions` of them."""
        if key is not None:
            return partition_of(key, partitions)
        if not 0 <= self._sticky < partitions or self._bytes >= self._batch_size:
            self._sticky = self._next(partitions)
            self._bytes = 0
        self._bytes += size
        return self._sticky

    def _next(self, partitions: int) -> int:
        """Another partition than the present one, where there is another."""
        if partitions == 1 or not 0 <= self._sticky < partitions:
            return self._choose(partitions)
        return (self._sticky + 1 + self._choose(partitions - 1)) % partitions
