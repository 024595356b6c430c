"""Chooses the partition of a record as Kafka's producers do: by the hash of its key, else sticky."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_MIX: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """32-bit signed murmur2 of `data` (org.apache.kafka.common.utils.Utils.murmur2)."""
    length = len(data)
    words = length // 4
    h = _SEED ^ length
    for k in struct.unpack_from(f"<{words}I", data):
        k = k * _MIX & _MASK
        h = (h * _MIX ^ (k ^ k >> 24) * _MIX) & _MASK
    tail = data[words * 4 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _MIX & _MASK
    h = (h ^ h >> 13) * _MIX & _MASK
    h ^= h >> 15
    return h - 0x1_0000_0000 if h & 0x8000_0000 else h


@lru_cache(maxsize=65_536)  # keys repeat; the hash in Python costs 20 times a look-up
def key_hash(key: bytes) -> int:
    """The non-negative hash of a key: `toPositive(murmur2(key))`."""
    return murmur2(key) & 0x7FFF_FFFF


def partition_of(key: bytes, partitions: int) -> int:
    """The partition a Kafka producer sends `key` to, among `partitions`."""
    return key_hash(key) % partitions


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
