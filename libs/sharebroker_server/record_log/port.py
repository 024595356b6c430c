"""Where a partition's batches are kept: what implementations promise.

A partition is named by its resource, "partition:<topicId>:<n>". Only the process whose epoch equals the one
of that resource's lease may append or trim; the comparison and the write are one atomic step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.segments import Segment

NO_NOTES: Final[Mapping[str, bytes]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Bounds:
    """First offset that may be read, and the offset of the next append; equal when the log is empty."""

    log_start_offset: int
    log_end_offset: int


class RecordStore(Protocol):
    """Logs of batches by partition. The errors are those of `sharebroker_server.stream_log.port`."""

    async def append(
        self,
        partition: str,
        epoch: int,
        batches: Sequence[StoredBatch],
        segments: Sequence[Segment] = (),
        notes: Mapping[str, bytes] = NO_NOTES,
    ) -> None:
        """Append all batches, none below the log end, and index rows of earlier ones, or nothing.

        With them go `notes`, small values by name, which replace those of the same name.

        Raises LogFenced, LogOutOfOrder, LogNotWritten, LogOutcomeUnknown.
        """

    async def read(self, partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        """Whole batches from the one that contains `offset` or follows it: `max_bytes` of them, at least one.

        [] at the end. Raises LogUnavailable.
        """

    async def bounds(self, partition: str) -> Bounds:
        """Log start and end; both survive trimming; 0 for a log that never was. Raises LogUnavailable."""

    async def segments(self, partition: str) -> list[Segment]:
        """The index rows in order, but those below the log start. Raises LogUnavailable."""

    async def notes(self, partition: str) -> dict[str, bytes]:
        """All notes; trimming batches leaves them as they are. Raises LogUnavailable."""

    async def trim(
        self, partition: str, epoch: int, log_start_offset: int, forgotten: Sequence[str] = ()
    ) -> None:
        """Move the log start up (never down), drop batches and rows that end below it, and `forgotten` notes.

        Raises LogFenced, LogNotWritten, LogOutcomeUnknown.
        """

    async def partitions(self) -> set[str]:
        """Every partition of which anything is kept, also those of deleted topics. Raises LogUnavailable."""

    async def delete(self, partition: str) -> None:
        """Forget the log; an append would start at offset 0. Raises LogNotWritten, LogOutcomeUnknown."""
