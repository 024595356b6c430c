"""Objects that a share-partition notifies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.share_partition_leader.core.effects import Effects, Event
from sharebroker_server.share_partition_leader.core.values import LostLock

if TYPE_CHECKING:
    from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition


class AvailabilityListener(Protocol):
    """A stream, fetch or watch that found no records."""

    def records_available(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available; called once per registration."""

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """This object is no longer in service; locks acquired through it are lost."""


class LockListener(AvailabilityListener, Protocol):
    """A stream, which acquires records under a name of its own."""

    holder: str

    def lock_lost(self, share_partition: ShareGroupPartition, lost: LostLock) -> None:
        """A lock of this stream ended before its records were acknowledged."""


class Observer(Protocol):
    """Observes what a share-partition does, for tracing; a process without tracing has none."""

    def fetched(self, batches: Sequence[StoredBatch]) -> None:
        """Record batches were read; called before the `Acquire` of them."""

    def observe(self, event: Event, effects: Effects) -> None:
        """An event was applied."""

    def rejected(self, event: Event, error: KafkaError) -> None:
        """An event was rejected."""

    def write_started(self) -> object:
        """Everything queued so far is part of a write that is sent now; returns its span, or None."""
