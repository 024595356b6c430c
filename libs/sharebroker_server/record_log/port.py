"""The store of partition logs: the guarantees of its implementations.

A partition is named by its resource, "partition:<topicId>:<n>". Only the process whose epoch equals that of
the resource's lease may append or trim; comparison and write are one atomic step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.log_state import Segment

NO_SNAPSHOTS: Final[Mapping[str, bytes]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first readable offset and the offset of the next append; equal if the log is empty."""

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
        snapshots: Mapping[str, bytes] = NO_SNAPSHOTS,
        *,
        beyond_limit: bool = False,
    ) -> None:
        """Appends all batches, none below the log end, and index rows of earlier ones; or nothing.

        Without batches it stores the snapshots.

        `snapshots` are small named values, stored in the same step; each replaces the value of the same name.
        `beyond_limit` permits the append while the store is full. Raises LogFenced, LogOutOfOrder, LogFull,
        LogNotWritten, LogOutcomeUnknown.
        """

    async def read(self, partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        """Returns whole batches from the one that contains or follows `offset`.

        Up to `max_bytes`, but at least one; [] at the end. Raises LogUnavailable.
        """

    async def read_at(self, partition: str, offsets: Sequence[int]) -> list[StoredBatch]:
        """Returns the batches that contain or follow these ascending offsets, each batch once, ascending.

        Raises LogUnavailable.
        """

    async def bounds(self, partition: str) -> Bounds:
        """Returns log start and end. Both survive trimming; 0 for an unknown log. Raises LogUnavailable.

        The caller has no append in flight: the store takes the log end as compared with the caller's memory.
        """

    async def log_end(self, partition: str) -> int:
        """Returns the log end, also while an append is in flight. Raises LogUnavailable."""
        return (await self.bounds(partition)).log_end_offset

    async def segments(self, partition: str) -> list[Segment]:
        """Returns the index rows in order, without those below the log start. Raises LogUnavailable."""

    async def snapshots(self, partition: str) -> dict[str, bytes]:
        """Returns all producer snapshots; trimming batches does not affect them. Raises LogUnavailable."""

    async def trim(
        self, partition: str, epoch: int, log_start_offset: int, deleted_snapshots: Sequence[str] = ()
    ) -> None:
        """Moves the log start up (never down).

        Deletes batches and index rows below it, and the producer snapshots `deleted_snapshots`.

        Raises LogFenced, LogNotWritten, LogOutcomeUnknown.
        """

    async def partitions(self) -> set[str]:
        """Returns every partition with stored data, including those of deleted topics.

        Raises LogUnavailable.
        """

    async def delete(self, partition: str) -> None:
        """Deletes the log; the next append starts at offset 0. Raises LogNotWritten, LogOutcomeUnknown."""
