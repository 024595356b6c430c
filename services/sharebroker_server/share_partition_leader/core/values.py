"""Values that go into and come out of a share-partition.

Offsets are ints, times are seconds as float. Those made on every fetch or acknowledgement are named tuples,
which cost a third of a frozen dataclass to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sharebroker_protocol.model import AcquireMode, RecordState, StateBatch


@dataclass(frozen=True, slots=True)
class SharePartitionSettings:
    """Limits of one share-partition; replace `RecordStates.settings` to change them at run time."""

    delivery_count_limit: int = 5
    """`share.delivery.count.limit`: attempts before a record is archived."""
    lock_duration: float = 30.0
    """`share.record.lock.duration.ms`, in seconds; read at each acquisition and renewal."""
    max_record_locks: int = 2000
    """`share.partition.max.record.locks`: widest SPSO..SPEO window in which new records are acquired."""
    renew_enabled: bool = True
    """`share.renew.acknowledge.enable`."""
    read_committed: bool = False
    """`share.isolation.level`."""

    @property
    def throttle_limit(self) -> int:
        """Delivery count from which failing records are handed out in ever smaller portions."""
        return max(2, (self.delivery_count_limit + 1) // 2)


@dataclass(frozen=True, slots=True)
class LoadedState:
    """What ReadShareGroupState gave at initialisation, with the start offset resolved (never -1)."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...] = ()


class AcquireRequest(NamedTuple):
    """Who wants records, at most how many, in units of how many (`BatchSize`, from 1); markers, too?

    `session` is the share session for which they are acquired.
    """

    member: str
    max_records: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
    with_markers: bool = False
    session: str = ""


class Completed(NamedTuple):
    """What a completed write changed, in offsets. `fetchable`: waiting fetches should look again."""

    fetchable: bool
    acknowledged: int
    released: int
    archived: int


class LostLock(NamedTuple):
    """A run whose acquisition lock ran out; `state` is AVAILABLE, or ARCHIVED after the last attempt."""

    member: str
    token: int
    first: int
    last: int
    delivery_count: int
    state: RecordState
