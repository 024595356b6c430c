"""Requests and answers of the calls. Offsets are ints, times seconds as float.

They are made on every fetch and acknowledgement: named tuples cost a third of a frozen dataclass to make, and
a protobuf message several times that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AckBatch, AcquiredRange, AcquireMode, TopicIdPartition


class AcquireCall(NamedTuple):
    """Records for a member, of partitions in the order in which they are to be served.

    `max_wait` is for the case that none has records; `max_bytes` and `batch_size` 0 leave it to the leader.
    Where `min_bytes` are asked for, and partitions have to be loaded, these bytes are enough.
    `with_markers` has markers of transactions acquired, too: Kafka's clients acknowledge them as gaps.
    `without_records` has the answer tell what was acquired, and leaves the record batches out.
    `session_id` is the share session that asks: its end releases what was acquired for it.
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


class Acquisition(NamedTuple):
    """What one partition gave: runs and the record batches that hold them; or an error; or nothing."""

    topic_id: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    records: bytes = b""
    acquired: Sequence[AcquiredRange] = ()


class AckPart(NamedTuple):
    """The acknowledgements of one partition; `delay` keeps back, for seconds, what is only released."""

    topic_id: str
    partition: int
    batches: Sequence[AckBatch]
    delay: float = 0.0


class AcknowledgeCall(NamedTuple):
    """Acknowledgements of a member; renewing must be announced."""

    group_id: str
    member_id: str
    parts: Sequence[AckPart]
    renew_allowed: bool = False


class Acknowledged(NamedTuple):
    """What became of a partition's acknowledgements: all are durable, or none was taken."""

    topic_id: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class LeftReason(IntEnum):
    """Why offsets that a member named were left as they are (`LeftReason` of sharebroker.delivery.v1)."""

    FINISHED = 1
    """Accepted, rejected or parked already, by whomever; or the log no longer has them."""
    TAKEN = 2
    """Somebody else holds them, or they are kept back until a delay has passed."""
    UNDER_WAY = 3
    """What the member said of them before is not durable yet."""
    PAST_END = 4
    """The log does not reach that far."""


class Left(NamedTuple):
    """Offsets first..last that were not settled."""

    first: int
    last: int
    reason: LeftReason


class SettlePart(NamedTuple):
    """What is said of a partition's records, ascending; each batch of one type."""

    topic_id: str
    partition: int
    batches: Sequence[AckBatch]


class SettleCall(NamedTuple):
    """What a member says of records it was given; `renew_held` renews what it holds then.

    `topic_ids`: tell what it holds in all other partitions of these, too.
    """

    group_id: str
    member_id: str
    parts: Sequence[SettlePart]
    renew_held: bool = False
    topic_ids: Sequence[str] = ()


class Settlement(NamedTuple):
    """What became of a partition: what was left as it is, and what the member holds there now."""

    topic_id: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    left: Sequence[Left] = ()
    held: Sequence[AcquiredRange] = ()


class Watch(Protocol):
    """Stands by partitions that have no records, so that nobody need ask them to know that."""

    @property
    def quiet(self) -> bool:
        """Whether that is still so; once it is not, the watch is over."""

    async def changes(self, timeout: float) -> bool:
        """Wait until there may be records, at most `timeout` seconds; False when nothing changed."""

    def tell(self, listener: Callable[[], None]) -> None:
        """Have `listener` called once when the watch is over."""

    def tell_no_more(self, listener: Callable[[], None]) -> None:
        """Not any more."""

    def end(self) -> None:
        """Stand by no longer."""


class ShareCalls(Protocol):
    """A leader. Answers come in the order of what was asked; raises KafkaError where it cannot be reached."""

    async def acquire(self, call: AcquireCall) -> Sequence[Acquisition]:
        """Each partition is answered once. Waits at most `max_wait`, and for state that is being loaded."""

    async def acknowledge(self, call: AcknowledgeCall, timeout: float) -> Sequence[Acknowledged]:
        """All or nothing for each partition, answered when durable; else REQUEST_TIMED_OUT is raised."""

    async def settle(self, call: SettleCall, timeout: float) -> Sequence[Settlement]:
        """Each partition of the call, durable or refused; then the others in which something is held."""

    def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> Watch | None:
        """A watch by partitions without records; None where there are some, or nobody can tell from here."""
