"""The sequence numbers of idempotent producers: unsigned, with 31 bits, one per record of a partition."""

from __future__ import annotations

from typing import Final

SEQUENCES: Final = 1 << 31
"""The number of sequence numbers; 0 follows the highest one."""

MAX_EPOCH: Final = (1 << 15) - 1
"""The highest epoch of a producer id."""


def sequence_after(sequence: int, count: int) -> int:
    """Returns the sequence number `count` records later."""
    return (sequence + count) % SEQUENCES
