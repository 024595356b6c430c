"""Kafka's key hash, so that a key lands in the partition where a Kafka producer puts it."""

from __future__ import annotations

import struct
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
