"""What goes into a share-partition (events) and what comes out (effects).

Both are created on every fetch and acknowledgement, and cost about as much as the calls that they replace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import AckBatch, AcquiredRange
from sharebroker_server.leader_calls.values import Left
from sharebroker_server.share_partition_leader.core.acquire import LogBatch
from sharebroker_server.share_partition_leader.core.in_flight import Transition
from sharebroker_server.share_partition_leader.core.values import (
    AcquireRequest,
    LostLock,
    SharePartitionSettings,
)

Reply = Callable[[KafkaError | None], None]
"""Receives the outcome of a request: None once it is durable, or the error."""


class Loaded(NamedTuple):
    """The state was loaded and the share-partition is in service."""


class Acquire(NamedTuple):
    """Records were read from the log at `offset`: acquire them for a member.

    `log_batches` are (base, last) of the record batches read, ascending. `hidden` are those of them that no
    member may get: markers, and records of aborted transactions. They are archived.
    """

    request: AcquireRequest
    offset: int
    log_batches: Sequence[LogBatch]
    hidden: Sequence[LogBatch] = ()


class Acknowledge(NamedTuple):
    """A member acknowledges records it holds: all batches or none. `delay` (seconds) is for releases only."""

    member: str
    batches: Sequence[AckBatch]
    reply: Reply
    delay: float = 0.0


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
    """Members are gone: release what they hold, or what one share `session` of them acquired.

    `undo`: the application never received the records, so that this does not count as a delivery.
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
    | Stop
    | Retire
)


class Effects:
    """What the shell does after an event, in this order.

    `acquired` and `left` answer the event itself. `transitions` were queued for a state write by this event;
    `write_due` asks for a call of `next_write` at the end of this turn of the event loop.
    `replies` are requests that are decided, `lost` are locks that ended before their holder acknowledged.
    `deadline` is the time of the next `TimerFired`, if it may have become earlier. `wake`: records may have
    become available. `retire`: the stored state belongs to another leader or epoch. `unused`: members left,
    and neither a lock nor a write remains.
    """

    __slots__ = (
        "acquired",
        "deadline",
        "left",
        "lost",
        "replies",
        "retire",
        "transitions",
        "unused",
        "wake",
        "write_due",
    )

    def __init__(self) -> None:
        self.acquired: Sequence[AcquiredRange] = ()
        self.left: Sequence[Left] = ()
        self.transitions: Sequence[Transition] = ()
        self.write_due = False
        self.replies: Sequence[tuple[Reply, KafkaError | None]] = ()
        self.lost: Sequence[LostLock] = ()
        self.deadline: float | None = None
        self.wake = False
        self.retire = False
        self.unused = False
