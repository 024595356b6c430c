"""Values of the share-partition core.

Offsets are ints, times are seconds as float.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sharebroker_protocol.model import AcquireMode, RecordState, StateBatch


@dataclass(frozen=True, slots=True)
class SharePartitionSettings:
    """Limits of one share-partition; a `Configure` event replaces them at run time."""

    delivery_count_limit: int = 5
    """`share.delivery.count.limit`: deliveries after which a record is archived."""
    lock_duration: float = 30.0
    """`share.record.lock.duration.ms`, in seconds; read at each acquisition and renewal."""
    max_record_locks: int = 2000
    """`share.partition.max.record.locks`: most offsets from start to end offset."""
    renew_enabled: bool = True
    """`share.renew.acknowledge.enable`."""
    read_committed: bool = False
    """`share.isolation.level`."""

    @property
    def throttle_limit(self) -> int:
        """Delivery count from which failing records are acquired in ever smaller portions."""
        return max(2, (self.delivery_count_limit + 1) // 2)


@dataclass(frozen=True, slots=True)
class LoadedState:
    """The stored state, with the start offset resolved (never -1)."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...] = ()


class AcquireRequest(NamedTuple):
    """A request for records of one member.

    `batch_size` is the size of acquired ranges (Kafka: BatchSize, from 1). `with_markers` includes
    transaction markers. `session` is the share session that the records are acquired for.
    """

    member: str
    max_records: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
    with_markers: bool = False
    session: str = ""


class Completed(NamedTuple):
    """What a completed write changed, in offsets. `fetchable`: records may have become available."""

    fetchable: bool
    acknowledged: int
    released: int
    archived: int


class LostLock(NamedTuple):
    """A range whose lock ended; `state` is AVAILABLE, or ARCHIVED at the delivery limit."""

    member: str
    token: int
    first: int
    last: int
    delivery_count: int
    state: RecordState
