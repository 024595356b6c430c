"""Runs of records with their batches, locks and pending transitions, and the holders of locks.

The holder of a lock is a member, or one of its streams, on behalf of a principal. Only the holder may
acknowledge, renew or release the records. A holder is a text. Before its first "@" are the number of a
stream, if any, and the principal in percent encoding, which contains no "@". The rest is the member id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import ceil
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from sharebroker_protocol.errors import invalid_field
from sharebroker_protocol.model import (
    FINISHED,
    LONGEST_HOLDER,
    LONGEST_STORED_REASON,
    Disposition,
    FailedRecords,
    FailureNote,
    RecordState,
    StateBatch,
    StateNote,
)
from sharebroker_server.security.principal import ANONYMOUS
from sharebroker_server.share_partition_leader.core.backoff import FailedDelivery
from sharebroker_server.share_partition_leader.core.events import Reply, SharePartitionSettings
from sharebroker_server.share_partition_leader.core.transitions import RecordEvent, after_failed_delivery

AVAILABLE = RecordState.AVAILABLE
ACQUIRED = RecordState.ACQUIRED
ACKNOWLEDGED = RecordState.ACKNOWLEDGED
ARCHIVING = RecordState.ARCHIVING
ARCHIVED = RecordState.ARCHIVED


class Batch(NamedTuple):
    """The offsets that were first acquired together."""

    first: int
    last: int


Unit = Batch | StateBatch
"""The unit of redelivery: a batch, or a stored batch that was loaded as AVAILABLE."""


class Lock:
    """An acquisition lock, shared by all runs of one acquisition; immutable: a renewal creates another.

    It ends with the share `session` that it was issued to, if any; its `member` may acknowledge it in another
    session. Its runs lie in `first` to `last`, which are set once all records are acquired. A `durable` lock
    is stored and survives a fail-over.
    """

    __slots__ = ("deadline", "durable", "first", "last", "member", "session", "token")

    def __init__(
        self,
        member: str,
        token: int,
        deadline: float,
        session: str = "",
        durable: bool = False,
    ) -> None:
        self.member = member
        self.token = token
        self.deadline = deadline
        self.session = session
        self.first, self.last = 0, -1
        self.durable = durable

    def cover(self, first: int, last: int) -> None:
        """Extends the offsets in which the lock's runs lie."""
        self.first = first if self.last < 0 else min(self.first, first)
        self.last = max(self.last, last)


def state_batch(
    first: int,
    last: int,
    state: RecordState,
    delivery_count: int,
    not_before_ms: int = 0,
    failure: FailureNote | None = None,
) -> StateBatch:
    """Returns offsets in a state, as they are written; only those that wait or are archiving have a note."""
    note = StateNote(not_before_ms, failure=failure) if not_before_ms or failure else None
    return StateBatch(first, last, state, delivery_count, note)


class Transition:
    """State changes that are committed or rolled back together.

    `batches` have to be written. `runs` wait for the outcome; a change that is in effect already (lock
    timeout) has none. `reply` receives the outcome. `rejected` and `gaps` count offsets that end by reason.
    `blameless`: its releases do not count as deliveries. `locks` have to be stored, as they are when the
    write is built. `failed` are the records that fail; None: there are none. `letters`: it archives records
    whose dead letters are written.
    """

    __slots__ = ("batches", "blameless", "failed", "gaps", "letters", "locks", "rejected", "reply", "runs")

    def __init__(self, reply: Reply | None = None, blameless: bool = False, letters: bool = False) -> None:
        self.reply = reply
        self.blameless = blameless
        self.letters = letters
        self.locks: Sequence[Lock] = ()
        self.failed: list[FailedRecords] | None = None
        self.runs: list[Run] = []
        self.batches: list[StateBatch] = []
        self.rejected = 0
        self.gaps = 0

    def after_release(self, delivery_count: int, settings: SharePartitionSettings) -> RecordState:
        """The state after a release, which exhausts a record at the delivery limit unless it is blameless."""
        if self.blameless:
            return AVAILABLE
        limit, letters = settings.delivery_count_limit, settings.dead_letters
        return after_failed_delivery(RecordEvent.RELEASE, delivery_count, limit, dead_letters=letters)

    def fail(self, run: Run, disposition: Disposition) -> None:
        """Lists a run among the failed records."""
        member_id = "" if run.lock is None else member_of(run.lock.member)
        run.failure = FailureNote(disposition, member_id=member_id)
        failed = FailedRecords(run.first, run.last, disposition, run.delivery_count, member_id=member_id)
        if self.failed is None:
            self.failed = [failed]
        else:
            self.failed.append(failed)

    def describe_failures(self, time_ms: float, reason: str = "") -> None:
        """Adds the time and the reason to the failed records, if any, and unites equal neighbours."""
        if self.failed is None:
            return
        time, stored = int(time_ms), reason[:LONGEST_STORED_REASON]
        self.failed = merged_failures(entry._replace(time_ms=time, reason=stored) for entry in self.failed)
        for run in self.runs:
            if run.failure is not None:
                run.failure = run.failure._replace(time_ms=time, reason=stored)

    def add(
        self,
        run: Run,
        target: RecordState,
        not_before_ms: int = 0,
        disposition: Disposition = Disposition.EXHAUSTED,
    ) -> None:
        """Adds a run; it changes to `target` when the transition is committed.

        `disposition` is for a run that fails.
        """
        if target is ARCHIVING or target is ARCHIVED:
            self.fail(run, disposition)
        run.target = target
        run.target_not_before_ms = not_before_ms
        run.pending = self
        self.runs.append(run)


MAX_CACHED_PRINCIPALS: Final = 1_000
"""Encoded principals that are cached."""


def member_holder(member_id: str, principal: str = "") -> str:
    """The holder of records that a member acquires by single calls; principal "": ANONYMOUS.

    Raises INVALID_REQUEST if it could not be stored with a lock.
    """
    return _checked(f"{encoded_principal(principal)}@{member_id}" if principal else f"@{member_id}")


def stream_holder(number: int, member_id: str, principal: str = "") -> str:
    """The holder of records that a stream of a member acquires; no other stream has its number.

    Raises INVALID_REQUEST if it could not be stored with a failed record.
    """
    return _checked(f"{number}{encoded_principal(principal)}@{member_id}")


def _checked(holder: str) -> str:
    """Raises INVALID_REQUEST for a holder that could not be stored."""
    if len(holder) > LONGEST_HOLDER:
        text = f"Principal and member id have {len(holder)} characters; {LONGEST_HOLDER} are allowed."
        raise invalid_field("member_id", text)
    return holder


def member_of(holder: str) -> str:
    """The member id of a holder."""
    return holder.partition("@")[2]


def principal_of(holder: str) -> str:
    """The principal of a holder; empty for ANONYMOUS."""
    return unquote(holder.partition("@")[0].partition("/")[2])


def is_held_by(holder: str, member_id: str, principal: str | None) -> bool:
    """Whether the holder is the member; for this principal, unless that is None."""
    return member_of(holder) == member_id and (principal is None or principal_of(holder) == principal)


@lru_cache(MAX_CACHED_PRINCIPALS)
def encoded_principal(principal: str) -> str:
    """Returns a principal as a part of a holder; "" for ANONYMOUS."""
    return "" if principal in ("", str(ANONYMOUS)) else f"/{quote(principal, safe='')}"


def merged_failures(entries: Iterable[FailedRecords]) -> list[FailedRecords]:
    """Unites neighbours that differ only in their offsets."""
    merged: list[FailedRecords] = []
    for entry in entries:
        before = merged[-1] if merged else entry
        if before.last + 1 == entry.first and before[2:] == entry[2:]:
            merged[-1] = before._replace(last=entry.last)
        else:
            merged.append(entry)
    return merged


class Run:
    """Offsets first..last in one state, with one delivery count and one lock.

    A run has a `lock` exactly while it is ACQUIRED. It stays ACQUIRED while a `pending` transition to
    `target` is written. A run without a `batch` is a gap in the loaded state, or was not loaded as AVAILABLE.
    An AVAILABLE run with `not_before_ms` waits: it cannot be acquired before that time. 0: it does not wait.
    `target_not_before_ms` becomes the time when the transition is committed. `failure` describes an ARCHIVING
    run; None: it was stored without one. An ARCHIVING run is `stored` once that state is durable. A locked
    run is `counted` if the write of its release failed: that may be stored nevertheless.
    """

    __slots__ = (
        "batch",
        "counted",
        "delivery_count",
        "failure",
        "first",
        "last",
        "lock",
        "not_before_ms",
        "pending",
        "state",
        "stored",
        "target",
        "target_not_before_ms",
    )

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        delivery_count: int,
        batch: Unit | None,
        lock: Lock | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self.state = self.target = state
        self.delivery_count = delivery_count
        self.batch = batch
        self.lock = lock
        self.pending: Transition | None = None
        self.not_before_ms = self.target_not_before_ms = 0
        self.failure: FailureNote | None = None
        self.stored = True
        self.counted = False

    @property
    def ready(self) -> bool:
        """Whether the records can be acquired now."""
        return self.state is AVAILABLE and not self.not_before_ms

    def next_delivery_ms(self, retry: FailedDelivery | None) -> int:
        """When a locked run whose delivery failed may be delivered again; 0: at once."""
        if retry is None or self.lock is None:
            return 0
        return retry.not_before_ms(self.first, self.delivery_count, self.lock.token)

    def target_batch(self) -> StateBatch:
        """The state after the pending transition, as it is written."""
        target = self.target
        if target in FINISHED:
            return StateBatch(self.first, self.last, target, self.delivery_count)
        if target is ARCHIVING:
            return state_batch(self.first, self.last, target, self.delivery_count, 0, self.failure)
        blameless = self.pending is not None and self.pending.blameless
        count = self.count_before if blameless else self.delivery_count
        return state_batch(self.first, self.last, AVAILABLE, count, self.target_not_before_ms)

    def locked_batch(self, lock: Lock, clock_offset_ms: float) -> StateBatch:
        """The state that is stored of records that are locked: available, with the count before the lock."""
        note = None
        if lock.durable:
            note = StateNote(ceil(lock.deadline * 1000 + clock_offset_ms), lock.member, lock.token)
        return StateBatch(self.first, self.last, AVAILABLE, self.count_before, note)

    @property
    def count_before(self) -> int:
        """The delivery count of a locked run without the present delivery, unless that is counted."""
        return self.delivery_count if self.counted else self.delivery_count - 1

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    def unlock(self, state: RecordState) -> None:
        """Ends the lock, the wait and any pending transition, and sets the state."""
        self.state = state
        self.lock = None
        self.pending = None
        self.not_before_ms = 0
        self.counted = False
        if self.failure is not None and state is not ARCHIVING:
            self.failure = None

    def cancel(self) -> None:
        """Ends a pending transition without effect."""
        self.pending = self.failure = None

    def continues_as(self, other: Run) -> bool:
        """Whether `other` is adjacent and differs only in its offsets; pending runs stay apart.

        Runs that ended unite across batches: the batch is the unit of redelivery.
        """
        state = self.state
        if (
            self.last + 1 != other.first
            or state is not other.state
            or self.delivery_count != other.delivery_count
        ):
            return False
        if state in FINISHED:  # such runs differ in nothing else that matters
            return True
        return (
            self.lock is other.lock
            and (self.batch is other.batch or state is ARCHIVING)
            and self.pending is None
            and other.pending is None
            and self.not_before_ms == other.not_before_ms
            and self.failure == other.failure
            and self.stored is other.stored
            and self.counted is other.counted
        )
