"""What an attempt to acquire records gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

from sharebroker_protocol.model import AcquiredRange
from sharebroker_server.record_log.core.batch import StoredBatch


class Taken(NamedTuple):
    """Runs acquired for a member, and the record batches that hold them."""

    acquired: Sequence[AcquiredRange]
    records: bytes

    @property
    def offsets(self) -> int:
        """How many offsets were acquired."""
        return sum(run.last - run.first + 1 for run in self.acquired)


class Nothing(Enum):
    """Why nothing was acquired."""

    EMPTY = auto()
    """No record is available; `wait` tells when to look again."""
    COLD = auto()
    """The records are no longer in memory; `acquire_cold` reads them."""


def bytes_of(batches: Sequence[StoredBatch], acquired: Sequence[AcquiredRange]) -> bytes:
    """The batches that have a record among what was acquired; both ascend."""
    needed = list(_holding(batches, acquired))
    return needed[0] if len(needed) == 1 else b"".join(needed)


def _holding(batches: Sequence[StoredBatch], acquired: Sequence[AcquiredRange]) -> Iterator[bytes]:
    runs = iter(acquired)
    run = next(runs)
    for batch in batches:
        while run.last < batch.base_offset:
            following = next(runs, None)
            if following is None:
                return
            run = following
        if run.first <= batch.last_offset:
            yield batch.data
