"""What a share-partition needs of the log of its partition; the log may belong to another cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sharebroker_server.record_log.core.batch import StoredBatch, TimedOffset
from sharebroker_server.record_log.core.transactions import Transactions

Span = tuple[int, int]
"""First and last offset of a record batch."""


class LogReader(Protocol):
    """The log of one partition that this process leads for share groups.

    The offsets are those that readers may see now; `LedPartition.wake` follows each change. `read_hot`
    and `read` return whole batches in the order of offsets, the first with `offset` or a later one.
    """

    @property
    def partition(self) -> str:
        """The resource of the partition, as the lease names it."""

    @property
    def epoch(self) -> int:
        """The epoch of this process's lease of the partition."""

    @property
    def log_start_offset(self) -> int:
        """The first readable offset."""

    @property
    def records_end_offset(self) -> int:
        """The offset after the last record that readers may see."""

    @property
    def last_stable_offset(self) -> int:
        """The start of the earliest open transaction, else the records end: the limit of read_committed."""

    @property
    def retention_ms(self) -> int:
        """The age in ms at which records are deleted; -1 without a limit."""

    @property
    def transactions(self) -> Transactions:
        """What is known of records apart from their batches: schedules, duplicates, recalls, addresses."""

    @property
    def size(self) -> int:
        """The size of the log's batches in bytes; 0 if it is unknown."""

    @property
    def is_behind(self) -> bool:
        """Whether the offsets may be old."""

    async def refresh(self) -> None:
        """Makes the offsets current.

        Raises:
            KafkaError: as `read`.
        """

    @property
    def loses_records(self) -> bool:
        """Whether the log may lose records at its end that readers have seen."""

    async def void_from(self, loaded_under: int, end: int) -> int | None:
        """Returns the offset from which share state is void because the log lost its records, or None.

        `loaded_under` is the epoch of the leader that loaded the state last; the state ends before `end`.

        Raises:
            KafkaError: as `read`.
        """

    def read_hot(self, offset: int, max_bytes: int, *, committed: bool = False) -> list[StoredBatch] | None:
        """Returns batches from memory; None if they are not there. Up to `max_bytes`, but at least one.

        [] at the end of the log. After None, use `read`. With `committed`, `aborted_batches` is used next.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER.
        """

    async def read(self, offset: int, max_bytes: int, *, committed: bool = False) -> list[StoredBatch]:
        """Returns batches as `read_hot` does, from the store if needed.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """

    async def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """Returns the first record with `timestamp` (ms) or later, None if all records are older.

        Raises:
            KafkaError: as `read`.
        """

    async def offset_of_newest(self) -> TimedOffset | None:
        """Returns the first record with the highest timestamp, None for an empty log.

        Raises:
            KafkaError: as `read`.
        """

    async def time_of(self, offset: int) -> int:
        """Returns the timestamp (ms) of a record, or a slightly later one; -1 if unknown."""

    def aborted_batches(self, batches: Sequence[StoredBatch]) -> list[Span]:
        """Returns the spans of those batches whose transactions were aborted.

        The batches are those of the last read with `committed`, or some of them.
        """
