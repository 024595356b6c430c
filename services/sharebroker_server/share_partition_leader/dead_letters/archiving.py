"""What the mover needs of a share-partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.record_log.log_reader import LogReader
from sharebroker_server.share_partition_leader.core.events import (
    ArchivingRecords,
    LettersWritten,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.core.letter_note import Range


class ArchivingCore(Protocol):
    """The part of `SharePartition` that the mover and the metrics read."""

    in_flight: InFlight
    settings: SharePartitionSettings

    @property
    def failed_under(self) -> tuple[int, int]:
        """State epoch of the failures, and leader epoch."""

    def archiving(self, limit: int) -> Sequence[ArchivingRecords]:
        """Returns the records that need letters, by offset."""

    def archiving_ranges(self) -> Sequence[Range]:
        """Returns the offsets whose letters may be sent again."""


class ArchivingPartition(Protocol):
    """A share-partition (`ShareGroupPartition`); `topic` is the name of its topic."""

    topic: str
    retired: bool
    key: SharePartitionKey

    @property
    def core(self) -> ArchivingCore:
        """Its core."""

    @property
    def log(self) -> LogReader:
        """The source log."""

    def handle(self, event: LettersWritten) -> object:
        """Applies an event."""
