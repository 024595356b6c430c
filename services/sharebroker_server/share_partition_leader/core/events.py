"""Events and effects of a share-partition, its counters, and the values that they carry.

Offsets are ints, times are seconds as float. An event and its effects are created on every fetch and
acknowledgement, and are therefore named tuples and slotted classes, which cost little to create.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, NamedTuple

from sharebroker_protocol.errors import KafkaError, invalid_field
from sharebroker_protocol.model import (
    SHORTEST_LOCK_MS,
    AckBatch,
    AckType,
    AcquiredRange,
    AcquireMode,
    RecordState,
    StateBatch,
)
from sharebroker_server.leader_calls.values import Unreconciled
from sharebroker_server.share_partition_leader.core.backoff import RetryBackoff

if TYPE_CHECKING:
    from sharebroker_server.share_partition_leader.core.runs import Transition

DEFAULT_BATCH_SIZE: Final = 500
"""Kafka's `max.poll.records`: acquired ranges have about this many records."""

LogBatch = tuple[int, int]
"""Base offset and last offset of a record batch."""

Scheduled = tuple[int, int, int]
"""First and last offset of records, and the time in ms before which they are not delivered."""


@dataclass(frozen=True, slots=True)
class SharePartitionSettings:
    """Limits of one share-partition; a `Configure` event replaces them at run time."""

    delivery_count_limit: int = 5
    """`share.delivery.count.limit`: deliveries after which a record is archived."""
    lock_duration: float = 30.0
    """`share.record.lock.duration.ms`, in seconds; read at each acquisition and renewal."""
    max_record_locks: int = 2000
    """`share.partition.max.record.locks`: most locks, and most records that are locked or can be acquired."""
    max_runs: int = 20_000
    """`group.share.partition.max.runs`: runs from which on no record is acquired for the first time."""
    renew_enabled: bool = True
    """`share.renew.acknowledge.enable`."""
    read_committed: bool = False
    """`share.isolation.level`."""
    backoff: RetryBackoff | None = None
    """`share.retry.backoff.*`; None: failed records are redelivered at once."""
    max_record_age: float = 0.0
    """`share.record.max.age.ms`, in seconds; 0: records do not expire."""
    releases_count: bool = True
    """`share.delivery.count.on`: whether a release counts as a delivery."""
    max_lock: float = 43_200.0
    """`group.share.max.lock.ms`, in seconds: the longest lock that a member may request."""
    paused: bool = False
    """`share.paused`: no record is acquired."""

    longest_journal: int = 100
    """`share.failed.records.max`: entries in the journal of failed records; 0: there is none."""
    dead_letters: bool = False
    """Whether failed records wait until their dead letters are written, before they are archived."""
    max_archiving: int = 10_000
    """`share.partition.max.archiving.records`: archiving records from which on no record is acquired."""

    @property
    def throttle_limit(self) -> int:
        """Delivery count from which failing records are throttled."""
        return max(2, (self.delivery_count_limit + 1) // 2)

    def check_lock(self, seconds: float) -> None:
        """Raises INVALID_REQUEST unless a member may request a lock of this length."""
        lock_ms, most = round(seconds * 1000), round(self.max_lock * 1000)
        if not SHORTEST_LOCK_MS <= lock_ms <= most:
            raise invalid_field("lock_ms", f"lock_ms is {lock_ms}; {SHORTEST_LOCK_MS} to {most} is allowed.")


@dataclass(frozen=True, slots=True)
class LoadedState:
    """The stored state, with the start offset resolved (never -1).

    `clock_offset_ms`: stored times minus times of this process, whose clock may differ from that of Redis.
    `kept_since`: the state epoch since which initialisations have kept the state; 0: `state_epoch`. A start
    offset that is not stored, because it was resolved, is written at `Loaded`.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...] = ()
    clock_offset_ms: float = 0.0
    kept_since: int = 0
    start_stored: bool = True

    @property
    def loaded_under(self) -> tuple[int, int]:
        """The state epoch and the leader epoch."""
        return self.state_epoch, self.leader_epoch

    @property
    def failed_under(self) -> tuple[int, int]:
        """The epochs of letters: a record fails once per state epoch, and a leader epoch has one sender.

        An initialisation that keeps the state does not change the state epoch here.
        """
        return self.kept_since or self.state_epoch, self.leader_epoch


@dataclass(slots=True)
class AcquireRequest:
    """A request for records of one member.

    `batch_size` is the size of acquired ranges (Kafka: BatchSize, from 1). `with_markers` includes
    transaction markers. `session` is the share session that the records are acquired for. `lock` is the
    length of the lock in seconds; 0: the group's.
    """

    member: str
    max_records: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
    with_markers: bool = False
    session: str = ""
    lock: float = 0.0

    def limited_to(self, max_records: int) -> AcquireRequest:
        """The same request for another number of records."""
        return AcquireRequest(
            self.member,
            max_records,
            self.batch_size,
            self.mode,
            self.with_markers,
            self.session,
            self.lock,
        )


@dataclass(slots=True)
class Completed:
    """What a completed write changed, in offsets. `fetchable`: records may have become available.

    `archived` includes archiving records.
    """

    fetchable: bool
    acknowledged: int
    released: int
    archived: int


class LostLock(NamedTuple):
    """A range whose lock ended; `state` is AVAILABLE, or at the delivery limit ARCHIVING or ARCHIVED.

    An AVAILABLE range waits until `not_before_ms`; 0: it does not wait.
    """

    member: str
    token: int
    first: int
    last: int
    delivery_count: int
    state: RecordState
    not_before_ms: int = 0


class ArchivingRecords(NamedTuple):
    """Offsets first..last that failed together and wait until their dead letters are written.

    `delivery_count`: deliveries to members. `disposition` is the number of a Disposition, `reason` the text
    of the acknowledgement. `time_ms` is the time of the failure, in milliseconds since the Unix epoch by the
    clock of Redis. `member_id` held the records last.
    """

    first: int
    last: int
    delivery_count: int
    disposition: int
    reason: str
    time_ms: int
    member_id: str


Reply = Callable[[KafkaError | None], None]
"""Receives the outcome of a request: None once it is durable, or the error."""


class Loaded(NamedTuple):
    """The share-partition is in service; a start offset that was resolved is to be stored."""


@dataclass(slots=True)
class Acquire:
    """Records were read from the log at `offset`: acquire them for a member.

    `log_batches` are (base, last) of the record batches read, ascending. `hidden` are those of them that no
    member may get: markers, and records of aborted transactions. `expired` are those that are older than
    `max_record_age`. Both are archived. `scheduled`, ascending, wait if their time is to come.
    """

    request: AcquireRequest
    offset: int
    log_batches: Sequence[LogBatch]
    hidden: Sequence[LogBatch] = ()
    expired: Sequence[LogBatch] = ()
    scheduled: Sequence[Scheduled] = ()


@dataclass(slots=True)
class Acknowledge:
    """A member acknowledges records it holds: all batches or none.

    `delay` (seconds) is for releases only; 0: they do not wait. None: the group's retry backoff applies.
    `lock` (seconds) is the length of renewed locks, for renewals only; 0: the group's.
    `blameless` is for releases only: they do not count as deliveries. `reason` is stored with the records
    that this archives.
    """

    member: str
    batches: Sequence[AckBatch]
    reply: Reply
    delay: float | None = None
    lock: float = 0.0
    blameless: bool = False
    reason: str = ""


class Reconcile(NamedTuple):
    """A member commits offsets of a planned batch, held or not; the log has `log_start` up to `log_end`."""

    member: str
    batches: Sequence[AckBatch]
    log_start: int
    log_end: int
    reply: Reply


class RenewAll(NamedTuple):
    """Renew every lock of a member."""

    member: str


class UndoAcquire(NamedTuple):
    """A member returns records that the application never received: all batches or none."""

    member: str
    batches: Sequence[AckBatch]


class MembersLeft(NamedTuple):
    """Members left or were fenced: release their records, or those that one share `session` acquired.

    Durable locks do not end with a session.
    `undo`: the application never received the records, so that this does not count as a delivery. `undo`
    applies to everything a member holds; `session` is then ignored.
    """

    members: Sequence[str]
    session: str = ""
    undo: bool = False


class Configure(NamedTuple):
    """The group's configuration changed."""

    settings: SharePartitionSettings


class TimerFired(NamedTuple):
    """The deadline of the last effects is reached, or may be."""


class WriteCompleted(NamedTuple):
    """The state write that `next_write` returned is durable, or failed with `error`."""

    error: KafkaError | None


class LettersWritten(NamedTuple):
    """The dead letters of these ranges of offsets are written, so that their records become archived.

    Offsets that are not archiving are ignored.
    """

    ranges: Sequence[tuple[int, int]]


class Stop(NamedTuple):
    """Accept no more requests; write what waits, retries included."""


class Retire(NamedTuple):
    """End now: locks are lost and changes whose write was not sent are rejected."""


Event = (
    Loaded
    | Acquire
    | Acknowledge
    | Reconcile
    | RenewAll
    | UndoAcquire
    | MembersLeft
    | Configure
    | TimerFired
    | WriteCompleted
    | LettersWritten
    | Stop
    | Retire
)


class Effects:
    """What the shell does after an event, in this order.

    `acquired` and `unreconciled` answer the event itself. `transitions` were queued by this event for a state
    write; `write_due` requests a call of `next_write` at the end of this turn of the event loop. `replies`
    are requests that are decided, `lost` are locks that ended before their holder acknowledged. `deadline` is
    the time of the next `TimerFired`, if it may have become earlier. `wake`: records may have become
    available. `archiving`: dead letters have to be written for `SharePartition.archiving`. `retire`: the
    stored state belongs to another leader or epoch. `unused`: members left, and neither a lock nor a write
    remains. The values of the class are the defaults, so that most effects need no constructor.
    """

    acquired: Sequence[AcquiredRange] = ()
    unreconciled: Sequence[Unreconciled] = ()
    transitions: Sequence[Transition] = ()
    write_due: bool = False
    replies: Sequence[tuple[Reply, KafkaError | None]] = ()
    lost: Sequence[LostLock] = ()
    deadline: float | None = None
    wake: bool = False
    archiving: bool = False
    retire: bool = False
    unused: bool = False


@dataclass(slots=True, eq=False)
class Counts:
    """Counters of record outcomes, shared by the share-partitions of a group and a topic.

    The module of each rule counts its outcomes: `count_acquired`, `count_acknowledged`, `count_archived` and
    `count_time_outs`.

    `acknowledged` counts by AckType. Archived and archiving records are counted once, by reason: `rejected`;
    `exhausted`, which reached the delivery limit; `gaps` in the log; `aborted`, of aborted transactions, with
    markers; `expired`, older than `max_record_age`.
    `deleted_waiting` counts records that the log deleted while they waited; the shell counts them.
    `fetches` counts the share-partitions in fetches, `fetches_with_records` those that returned records.
    """

    fetches: int = 0
    fetches_with_records: int = 0
    acquired: int = 0
    redelivered: int = 0
    unseen: int = 0
    lost: int = 0
    acknowledged: list[int] = field(default_factory=lambda: [0] * len(AckType))
    rejected: int = 0
    exhausted: int = 0
    gaps: int = 0
    aborted: int = 0
    expired: int = 0
    deleted_waiting: int = 0

    def merge(self, other: Counts) -> None:
        """Adds the counts of another object, which is not used any more."""
        self.acknowledged = [
            mine + its for mine, its in zip(self.acknowledged, other.acknowledged, strict=True)
        ]
        for each in fields(self):
            if each.name != "acknowledged":
                setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
