"""Requests and results of the calls to a leader, and the port that serves them. Times are seconds as float.

Within one process these values go from the gateway to the leader and back; between processes `messages`
translates them to protobuf. They are named tuples because most are created on every fetch, acknowledgement or
append: a named tuple costs a third of a frozen dataclass to create, a protobuf message several times that.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AckBatch, AcquiredRange, AcquireMode, TopicIdPartition


class AcquireCall(NamedTuple):
    """Acquires records for a member, from partitions in the order in which they are to be served.

    `max_wait` limits the wait while no partition has records. `max_bytes` and `batch_size` 0 select the
    leader's defaults. If partitions have to be loaded first, `min_bytes` bytes complete the call.
    `with_markers` also acquires transaction markers: Kafka's clients acknowledge them as gaps.
    `without_records` leaves the record batches out of the result. `session_id` names the share session; when
    that session ends, its leaders release the records it acquired. Only the `principal` that acquired records
    may acknowledge them; "" is ANONYMOUS, here and in the other calls. `lock` is the length of the locks in
    seconds; 0: the group's, here and in the other calls. `client_id` names the member's client in dead
    letters; "": unknown.
    """

    group_id: str
    member_id: str
    partitions: Sequence[TopicIdPartition]
    max_wait: float
    max_records: int
    min_bytes: int = 0
    max_bytes: int = 0
    batch_size: int = 0
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
    with_markers: bool = False
    without_records: bool = False
    session_id: str = ""
    principal: str = ""
    lock: float = 0.0
    client_id: str = ""


class AcquireResult(NamedTuple):
    """One partition's acquired ranges with the record batches that contain them, or its error."""

    topic_id: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    records: bytes = b""
    acquired: Sequence[AcquiredRange] = ()


class AckPart(NamedTuple):
    """The acknowledgements of one partition.

    `delay` (seconds) delays the records that are released; None: the group's retry backoff.
    `lock` is for the records that are renewed. `blameless`: releases do not count as deliveries.
    `reason` is stored with records that are archived.
    """

    topic_id: str
    partition: int
    batches: Sequence[AckBatch]
    delay: float | None = None
    lock: float = 0.0
    blameless: bool = False
    reason: str = ""


class AcknowledgeCall(NamedTuple):
    """Acknowledgements of a member; RENEW needs `renew_allowed`."""

    group_id: str
    member_id: str
    parts: Sequence[AckPart]
    renew_allowed: bool = False
    principal: str = ""


class AckResult(NamedTuple):
    """The outcome of one partition's acknowledgements: all are durable, or none was applied."""

    topic_id: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class UnreconciledReason(IntEnum):
    """Why a reconciliation did not change offsets (`LeftReason` of sharebroker.delivery.v1)."""

    FINISHED = 1
    """The records are in a terminal state, or below the log start offset."""
    TAKEN = 2
    """Another member holds the records, or their release is delayed."""
    UNDER_WAY = 3
    """An earlier state write of the same member is pending."""
    PAST_END = 4
    """The offsets are beyond the end of the log."""


class Unreconciled(NamedTuple):
    """Offsets first..last that a reconciliation did not change."""

    first: int
    last: int
    reason: UnreconciledReason


class ReconcileCall(NamedTuple):
    """Brings records to the states that a planned batch demands; each ack batch has one type.

    `renew_held` renews the locks that the member holds afterwards. With `topic_ids` the result also lists the
    locks that it holds in all other partitions of these topics.
    """

    group_id: str
    member_id: str
    parts: Sequence[AckPart]
    renew_held: bool = False
    topic_ids: Sequence[str] = ()
    principal: str = ""


class ReconcileResult(NamedTuple):
    """One partition: the offsets that were not changed, and the locks that the member holds now."""

    topic_id: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    left: Sequence[Unreconciled] = ()
    held: Sequence[AcquiredRange] = ()


class AppendPart(NamedTuple):
    """Record batches to append to one partition."""

    topic_id: str
    partition: int
    records: bytes


class AppendCall(NamedTuple):
    """Record batches of one producer. Transactional batches need the `transactional_id`.

    `adds_partitions` adds their partitions to the transaction; otherwise they must be part of it (KIP-890).
    `duplicate_offsets`: the caller uses `AppendResult.offsets`.
    """

    parts: Sequence[AppendPart]
    transactional_id: str = ""
    adds_partitions: bool = False
    duplicate_offsets: bool = False


class AppendResult(NamedTuple):
    """One partition's appended offsets, durable, or its error; `log_append_time` in milliseconds.

    `offsets` has the offset of each record if these are not consecutive.
    """

    topic_id: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    base_offset: int = 0
    last_offset: int = 0
    log_append_time: int = 0
    log_start_offset: int = 0
    offsets: tuple[int, ...] = ()


class LettersCall(NamedTuple):
    """Dead letters for one partition of a dead letter topic: a batch, and the source offset of each record.

    `still_archiving`: all offsets of the share-partition whose letters may be sent again, first and last of
    each range. Offsets and ranges ascend. Without records only the note of letters written is changed.
    `sequence` increases with each request of a source leader epoch. `state_epoch` is that of the failures.
    """

    topic_id: str
    partition: int
    group_id: str
    source_topic_id: str
    source_partition: int
    state_epoch: int
    source_leader_epoch: int
    sequence: int
    records: bytes
    source_offsets: Sequence[int]
    still_archiving: Sequence[tuple[int, int]]


class LettersResult(NamedTuple):
    """How many letters a call has appended, durably, or its error."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    appended: int = 0


class DeliverOpen(NamedTuple):
    """Opens a delivery stream; `batch_size` 0 selects the leader's default.

    With `pause_on_lock_lost` a lost lock pauses the delivery until the member resumes it: a member that does
    not process records would otherwise use up their deliveries. With `durable_locks` the member holds the
    records, and locks that it renews for at least a minute outlive the stream.
    """

    group_id: str
    member_id: str
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED
    batch_size: int = 0
    pause_on_lock_lost: bool = False
    principal: str = ""
    lock: float = 0.0
    durable_locks: bool = False
    client_id: str = ""


class DeliverInput(NamedTuple):
    """A message to a delivery stream. `partitions` replaces the partitions that it delivers from.

    `credit` adds to the number of records that the leader may send; it may be negative. `rest_unseen`: the
    application has not seen the records that are held at the end of the stream. `resume` ends a pause.
    """

    partitions: frozenset[TopicIdPartition] | None = None
    credit: int = 0
    acknowledgements: Sequence[delivery.Acknowledgement] = ()
    rest_unseen: bool = False
    resume: bool = False


class Delivery(NamedTuple):
    """Acquired ranges of one partition, and the record batches that contain them."""

    topic_id: str
    topic: str
    partition: int
    records: bytes
    acquired: Sequence[AcquiredRange]


class StreamAckResult(NamedTuple):
    """The outcome of acknowledgement `id` for first..last; `lock_deadline` of renewed locks, else 0."""

    id: int
    first: int
    last: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    lock_deadline: float = 0.0


class LostRange(NamedTuple):
    """Offsets first..last whose locks the member lost."""

    topic_id: str
    partition: int
    first: int
    last: int
    token: int = 0


class Problem(NamedTuple):
    """A partition from which the leader cannot deliver now."""

    topic_id: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""


class DeliverOutput(NamedTuple):
    """A message from a delivery stream."""

    deliveries: list[Delivery]
    results: list[StreamAckResult]
    lost: list[LostRange]
    problems: list[Problem]


class DeliverStream(Protocol):
    """A member's stream to one leader; the port is the same within a process and between processes."""

    async def send(self, message: DeliverInput) -> None:
        """Sends a message; waits while the leader does not read."""

    def finish(self) -> None:
        """Half-closes the stream: the leader completes what is pending and then ends `outputs`."""

    def outputs(self) -> AsyncGenerator[DeliverOutput, None]:
        """The leader's messages. Raises KafkaError when the stream breaks. Closing it ends the stream."""

    def close(self) -> None:
        """Ends the stream at once; the leader releases the records that the member holds through it."""

    def unanswered(self) -> Sequence[int]:
        """Ids of acknowledgements whose result the end of the stream lost; empty within a process."""


class RecordsWatch(Protocol):
    """A records-available notification for partitions that have no records: a long poll completes with it."""

    @property
    def active(self) -> bool:
        """Whether no records have become available; once False, the watch has ended."""

    async def changes(self, timeout: float) -> bool:
        """Waits at most `timeout` seconds until there may be records; False if nothing changed."""

    def add_observer(self, observer: Callable[[], None]) -> None:
        """Calls `observer` once when the watch ends."""

    def remove_observer(self, observer: Callable[[], None]) -> None:
        """Undoes `add_observer`."""

    def end(self) -> None:
        """Ends the watch and calls its observers."""


class LeaderCalls(Protocol):
    """The port of a leader: an object in the same process, or messages to another process.

    Results are in the order of the request's partitions. Every method raises KafkaError if the leader cannot
    be reached.
    """

    def acquire(self, call: AcquireCall) -> Awaitable[Sequence[AcquireResult]]:
        """One result per partition. Waits at most `max_wait`, plus the time to load share-partitions."""

    def acknowledge(self, call: AcknowledgeCall, timeout: float) -> Awaitable[Sequence[AckResult]]:
        """All or nothing per partition, completed when durable. Raises REQUEST_TIMED_OUT."""

    def reconcile(self, call: ReconcileCall, timeout: float) -> Awaitable[Sequence[ReconcileResult]]:
        """Durable results of the call's partitions, then results of other partitions with held locks."""

    def append(self, call: AppendCall, timeout: float | None) -> Awaitable[Sequence[AppendResult]]:
        """Appends record batches, completed when durable. Raises REQUEST_TIMED_OUT."""

    def append_letters(self, call: LettersCall, timeout: float) -> Awaitable[LettersResult]:
        """Appends dead letters, each once, completed when durable. Raises REQUEST_TIMED_OUT."""

    def deliver(self, opening: DeliverOpen) -> DeliverStream:
        """Opens a delivery stream."""

    async def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> RecordsWatch | None:
        """A watch of partitions without records; None if there are some, or the leader cannot decide."""
