"""Result of an attempt to acquire records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

from sharebroker_protocol.model import AcquiredRange
from sharebroker_server.record_log.core.batch import StoredBatch


class Fetched(NamedTuple):
    """Ranges that a member acquired, and the record batches that hold them."""

    acquired: Sequence[AcquiredRange]
    records: bytes

    @property
    def offsets(self) -> int:
        """The number of acquired offsets."""
        return sum(item.last - item.first + 1 for item in self.acquired)


class NotFetched(Enum):
    """Why nothing was acquired."""

    NO_RECORDS = auto()
    """No record is available; an availability listener is notified when that may have changed."""
    NOT_CACHED = auto()
    """The records are not in the hot cache; `acquire_uncached` reads them from the store."""


def bytes_of(batches: Sequence[StoredBatch], acquired: Sequence[AcquiredRange]) -> bytes:
    """Returns the record batches that have a record in the acquired ranges; both ascend."""
    if len(acquired) == 1:
        first, last = acquired[0][:2]
        needed = [b.data for b in batches if b.last_offset >= first and b.base_offset <= last]
    else:
        needed = list(_needed(batches, acquired))
    return needed[0] if len(needed) == 1 else b"".join(needed)


def _needed(batches: Sequence[StoredBatch], acquired: Sequence[AcquiredRange]) -> Iterator[bytes]:
    ranges = iter(acquired)
    current = next(ranges)
    for batch in batches:
        while current.last < batch.base_offset:
            following = next(ranges, None)
            if following is None:
                return
            current = following
        if current.first <= batch.last_offset:
            yield batch.data
