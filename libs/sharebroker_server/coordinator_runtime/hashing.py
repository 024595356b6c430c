"""Maps a key to a shard as Kafka maps a group id to a partition of the coordinator's topic."""

from __future__ import annotations

from functools import lru_cache, reduce


def java_string_hash(text: str) -> int:
    """Returns Java's `String.hashCode()`: computed over UTF-16 code units, a signed 32-bit number."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    units = (encoded[i] << 8 | encoded[i + 1] for i in range(0, len(encoded), 2))
    unsigned = reduce(lambda hashed, unit: (31 * hashed + unit) & 0xFFFFFFFF, units, 0)
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


@lru_cache(65_536)  # called for every state write, and Java's hash is a loop in Python
def shard_of(key: str, shards: int) -> int:
    """Returns `Utils.abs(hash) % shards`; Kafka defines the absolute value of -2**31 as 0."""
    hashed = java_string_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % shards
