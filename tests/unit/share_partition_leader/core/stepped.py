"""A share-partition whose steps a test runs in any order, such as several writes at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, AcquiredRange, StateWrite
from sharebroker_server.leader_calls.values import Unreconciled
from sharebroker_server.share_partition_leader.core.acquire import archive_hidden
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    Acquire,
    AcquireRequest,
    Completed,
    Configure,
    Counts,
    Effects,
    LettersWritten,
    LoadedState,
    LogBatch,
    LostLock,
    MembersLeft,
    Reconcile,
    RenewAll,
    SharePartitionSettings,
    TimerFired,
    UndoAcquire,
)
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.core.runs import Transition
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from sharebroker_server.share_partition_leader.core.state_writes import (
    build_write,
    commit,
    count_archived,
    roll_back,
)


class Expired(NamedTuple):
    """Locks that timed out, and the transition that stores it."""

    lost: tuple[LostLock, ...]
    transition: Transition | None


class Reconciled(NamedTuple):
    """The transition to write (None: nothing), and the unchanged offsets."""

    transition: Transition | None
    left: tuple[Unreconciled, ...]


def _ignore(_: KafkaError | None) -> None:
    pass


def _queued(effects: Effects) -> Transition | None:
    """The transition that an event queued; None for one that only writes the start offset."""
    return next((item for item in effects.transitions if item.runs or item.batches or item.locks), None)


class SteppedPartition:
    """Applies events through `handle`, but leaves it to the test which transitions are written together.

    It has a share-partition instead of extending its class, which may be a compiled one.
    """

    def __init__(
        self,
        settings: SharePartitionSettings,
        loaded: LoadedState,
        tokens: Iterator[int] | None = None,
        counts: Counts | None = None,
    ) -> None:
        self.core = SharePartition(settings, loaded, tokens, counts)
        self.handle = self.core.handle

    @property
    def in_flight(self) -> InFlight:
        return self.core.in_flight

    @property
    def settings(self) -> SharePartitionSettings:
        return self.core.settings

    @settings.setter
    def settings(self, settings: SharePartitionSettings) -> None:
        self.core.settings = settings

    @property
    def counts(self) -> Counts:
        return self.core.counts

    @counts.setter
    def counts(self, counts: Counts) -> None:
        self.core.counts = counts

    @property
    def start_offset(self) -> int:
        return self.core.start_offset

    def __getattr__(self, name: str) -> Any:
        return getattr(self.core, name)

    @property
    def end_offset(self) -> int:
        return self.in_flight.end

    @property
    def in_flight_count(self) -> int:
        return self.in_flight.count

    @property
    def delivery_complete_count(self) -> int:
        return self.in_flight.complete_count

    def next_fetch_offset(self) -> int:
        available = self.in_flight.first_available()
        return self.in_flight.after_end if available is None else available

    def acquirable_offset(self) -> int | None:
        return self.in_flight.acquirable_offset(self.settings)

    def next_is_throttled(self) -> bool:
        return self.in_flight.next_is_throttled(self.settings.throttle_limit)

    def acquire(
        self, request: AcquireRequest, offset: int, log_batches: Sequence[LogBatch], now: float
    ) -> list[AcquiredRange]:
        return self.acquire_durably(request, offset, log_batches, now)[0]

    def acquire_durably(
        self, request: AcquireRequest, offset: int, log_batches: Sequence[LogBatch], now: float
    ) -> tuple[list[AcquiredRange], Transition | None]:
        """Returns the transition that stores a durable lock, too."""
        effects = self.handle(Acquire(request, offset, log_batches), now)
        return list(effects.acquired), _queued(effects)

    def archive_aborted(
        self, acquired: Sequence[AcquiredRange], aborted: Sequence[LogBatch]
    ) -> list[AcquiredRange]:
        return archive_hidden(self.in_flight, acquired, aborted, self.counts)

    def acknowledge(
        self,
        member: str,
        batches: Sequence[AckBatch],
        now: float,
        delay: float | None = None,
        lock: float = 0.0,
        *,
        blameless: bool = False,
    ) -> Transition | None:
        event = Acknowledge(member, batches, _ignore, delay, lock, blameless)
        return _queued(self.handle(event, now))

    def reconcile(self, member: str, batches: Sequence[AckBatch], end: int, now: float) -> Reconciled:
        effects = self.handle(Reconcile(member, batches, 0, end, _ignore), now)
        return Reconciled(_queued(effects), tuple(effects.unreconciled))

    def renew_all(self, member: str, now: float) -> Transition | None:
        return _queued(self.handle(RenewAll(member), now))

    def undo_acquire(self, member: str, batches: Sequence[AckBatch]) -> Transition | None:
        return _queued(self.handle(UndoAcquire(member, batches), 0.0))

    def undo_all(self, member: str) -> Transition | None:
        return _queued(self.handle(MembersLeft((member,), undo=True), 0.0))

    def release_member(self, member: str, session: str = "", now: float = 0.0) -> Transition | None:
        return _queued(self.handle(MembersLeft((member,), session), now))

    def write_letters(self, ranges: Sequence[tuple[int, int]], now: float) -> Transition | None:
        return _queued(self.handle(LettersWritten(ranges), now))

    def configure(self, settings: SharePartitionSettings, now: float) -> Transition | None:
        return _queued(self.handle(Configure(settings), now))

    def expire(self, now: float) -> Expired:
        effects = self.handle(TimerFired(), now)
        return Expired(tuple(effects.lost), _queued(effects))

    def write(self, transitions: Collection[Transition] = ()) -> StateWrite:
        return build_write(self.in_flight, self.core.loaded_state, transitions, self.settings)

    def complete(self, transitions: Sequence[Transition], error: ErrorCode | None = None) -> Completed:
        if error:
            roll_back(self.in_flight, self.core._locks, transitions)
            return Completed(False, 0, 0, 0)
        completed = commit(self.in_flight, transitions)
        count_archived(self.counts, transitions, completed)
        return completed

    def move_log_start(self, offset: int) -> bool:
        before = self.start_offset
        self.in_flight.drop_before(offset)
        return self.start_offset > before
