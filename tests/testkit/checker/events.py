"""The events of a history, as observed by clients and in logs. Times are seconds of one observer's clock.

Clients observe published, delivered and acknowledged records; log readers add what was written. The checker
applies the rules for which the history has events.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from sharebroker.verification.rules import Evidence
from sharebroker_protocol.model import JournalUpdate, StateBatch


class Share(NamedTuple):
    """A share-partition: a group's view of a partition of a topic."""

    group: str
    topic: str
    partition: int

    @property
    def log(self) -> tuple[str, int]:
        """The partition, independent of the group."""
        return self.topic, self.partition


class Verdict(Enum):
    """A member's decision on a record that it holds."""

    ACCEPT = "accept"
    REJECT = "reject"
    RELEASE = "release"
    RENEW = "renew"
    UNSEEN = "unseen"
    """The application never received it: the delivery does not count."""
    RETURN = "return"
    """A blameless release: durable, but the delivery does not count."""

    @property
    def final(self) -> bool:
        """Whether it finishes the record."""
        return self in (Verdict.ACCEPT, Verdict.REJECT)


class Run(NamedTuple):
    """Offsets first..last in one stored state: 0 available, 2 acknowledged, 3 archiving, 4 archived.

    Available records are not delivered before `not_before`, in seconds; 0: they do not wait.
    """

    first: int
    last: int
    state: int
    deliveries: int
    not_before: float = 0.0

    @staticmethod
    def of(batch: StateBatch, epoch: float = 0.0) -> Run:
        """Returns a stored state batch as a run; the observer's clock starts at `epoch`."""
        first, last, state, deliveries, note = batch
        waits = note is not None and not note.lock_token  # a durable lock does not delay its own holder
        not_before = note.not_before_ms / 1000 - epoch if note is not None and waits else 0.0
        return Run(first, last, state, deliveries, not_before)


@dataclass(frozen=True, slots=True)
class Event:
    """An observation at a time."""

    at: float


@dataclass(frozen=True, slots=True)
class Happened(Event):
    """A fault or another note for readers; not verified."""

    what: str


@dataclass(frozen=True, slots=True)
class Published(Event):
    """A producer received the confirmation that its record is durable."""

    topic: str
    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Written(Event):
    """A record of an idempotent producer, or with a message id, was written to a log."""

    topic: str
    partition: int
    value: str


@dataclass(frozen=True, slots=True)
class Expired(Event):
    """Records first..last were written that are older than every group permits."""

    topic: str
    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Hidden(Event):
    """State of share groups was written at the offsets first..last, which no member receives."""

    topic: str
    partition: int
    first: int
    last: int


DUE: Final = "due "
"""The start of the values of scheduled records; then comes the delivery time in seconds, and a space."""


@dataclass(frozen=True, slots=True)
class Recalled(Event):
    """A producer recalls a scheduled record, or received the confirmation of that."""

    topic: str
    partition: int
    offset: int
    confirmed: bool


@dataclass(frozen=True, slots=True)
class Addressed(Event):
    """A copy of the record at `source` was written to the log of the share's partition, for its group."""

    share: Share
    source: int
    copy: int
    value: str


@dataclass(frozen=True, slots=True)
class Retried(Event):
    """An administrator received the confirmation that the copy of a failed record is durable."""

    share: Share
    source: int
    copy: int


@dataclass(frozen=True, slots=True)
class DeadLetter(Event):
    """The dead letter of a record was written; `value` is that of its copy, None without one.

    `rejected`: a member rejected the record, according to the letter.
    """

    share: Share
    offset: int
    rejected: bool
    value: str | None


@dataclass(frozen=True, slots=True)
class Confirmed(Event):
    """A producer counts such a record as stored; it may not know the offset."""

    topic: str
    partition: int
    value: str


@dataclass(frozen=True, slots=True)
class Delivered(Event):
    """A member received a record with a lock; `deadline` is on the leader's clock.

    With `streamed` the lock ends with the member's stream, possibly before the member notices.
    """

    share: Share
    offset: int
    value: str
    member: str
    token: int
    count: int
    deadline: float
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Requested(Event):
    """A member sends a decision; `request_id` identifies it.

    With `by_token` it applies to this acquisition; otherwise to the member's current one, as for Kafka's
    clients, which may be one whose response was lost. A release may have a `delay` in seconds.
    """

    request_id: int
    share: Share
    offset: int
    token: int
    verdict: Verdict
    by_token: bool = True
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class Returned(Event):
    """A member received a record of a topic that is created again; `written` is what that topic has there.

    The share names the topic by its id.
    """

    share: Share
    offset: int
    value: str
    written: str | None


@dataclass(frozen=True, slots=True)
class Undelivered(Event):
    """The offsets of a topic that was created again, in which no member received a record."""

    topic: str
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unjudged(Event):
    """An event of a share-partition whose records are in another cluster, for readers; see Kept."""

    event: Event


@dataclass(frozen=True, slots=True)
class Kept(Event):
    """Of the records that the other cluster kept: those that no member received, and those that a member
    received after the confirmation that they are finished. Each is an offset and a value.
    """

    topic: str
    missing: tuple[tuple[int, str], ...]
    repeated: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Paused(Event):
    """All leaders know that a group is paused, and no earlier delivery is on its way."""

    group: str


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """An administrator resumes a group."""

    group: str


@dataclass(frozen=True, slots=True)
class Breaker(Event):
    """Whether a group is paused, and whether its failures since it was resumed require it."""

    group: str
    paused: bool
    expected: bool


@dataclass(frozen=True, slots=True)
class Held(Event):
    """A member received the confirmation that its lock is durable, and lasts at least `until`."""

    share: Share
    offset: int
    token: int
    until: float


@dataclass(frozen=True, slots=True)
class Applied(Event):
    """The decision is applied and durable. There is no event for an error, since an earlier attempt may have
    succeeded.

    `deadline` is the lock's new deadline after a renewal.
    """

    request_id: int
    deadline: float = 0.0


@dataclass(frozen=True, slots=True)
class LockLost(Event):
    """A member received the notification of a lost lock."""

    share: Share
    offset: int
    token: int


@dataclass(frozen=True, slots=True)
class MemberLeft(Event):
    """A member closes its session, or its connection breaks: others may acquire its records."""

    group: str
    member: str


@dataclass(frozen=True, slots=True)
class Reset(Event):
    """An administrator requests another start offset or deletes the state; no deliveries until Moved."""

    share: Share


@dataclass(frozen=True, slots=True)
class Moved(Event):
    """The reset is complete: the group starts at `start` (-1: the reset policy). Finished records from there
    on may be redelivered.
    """

    share: Share
    start: int


@dataclass(frozen=True, slots=True)
class Forgotten(Event):
    """The log contains the deletion of the state."""

    share: Share


@dataclass(frozen=True, slots=True)
class Appended(Event):
    """Positions first..last of a log were written with a lease epoch."""

    log: str
    epoch: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Claimed(Event):
    """The lease of a log was claimed: writes with an older epoch must be rejected from here on."""

    log: str
    epoch: int


def in_journal(update: JournalUpdate | None) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Returns the offsets that an update adds, and those of a complete one."""
    if update is None:
        return (), None
    offsets = tuple(offset for entry in update.records for offset in range(entry.first, entry.last + 1))
    return ((), offsets) if update.complete else (offsets, None)


@dataclass(frozen=True, slots=True)
class Stored(Event):
    """A record of share state was written: the complete state (`whole`) or a delta.

    In a delta, a state epoch, leader epoch or start offset of -1 is unchanged. `failed` are the offsets that
    it adds to the journal of failed records, `journal` those of a complete journal in it.
    """

    share: Share
    whole: bool
    state_epoch: int
    leader_epoch: int
    start: int
    runs: tuple[Run, ...]
    failed: tuple[int, ...] = ()
    journal: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class WriteBegan(Event):
    """A leader sends a state write with its epochs; `write` identifies the attempt."""

    write: int
    share: Share
    state_epoch: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class WriteEnded(Event):
    """The leader received the confirmation of the write. There is no event for an error or a timeout."""

    write: int


@dataclass(frozen=True, slots=True)
class StateRead(Event):
    """The share coordinator's state in memory, while no write is pending."""

    share: Share
    start: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class JournalRead(Event):
    """The failed records that the system lists, while no write is pending, and how many it dropped."""

    share: Share
    offsets: tuple[int, ...]
    dropped: int


@dataclass(frozen=True, slots=True)
class LogsRead(Event):
    """The contents of the logs of a share-partition, while no write is pending."""

    share: Share
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class LagReported(Event):
    """The lag that the system reports, while no write is pending."""

    share: Share
    end: int
    lag: int


@dataclass(frozen=True, slots=True)
class CallBegan(Event):
    """A call starts that must end by its deadline, with any result."""

    call: int
    what: str
    deadline: float


@dataclass(frozen=True, slots=True)
class CallEnded(Event):
    """The call ended."""

    call: int
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Counted(Event):
    """The count of a resource before and after the load."""

    what: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Healed(Event):
    """The last fault ended; from here on some consumer always fetches."""


@dataclass(frozen=True, slots=True)
class Recovered(Event):
    """Every record is finished after the last fault; later ones, and delays, are delivered on time."""


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """The history is complete."""
