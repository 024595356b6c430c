"""The share-partition: the records of one topic partition as one share group sees them, on their leader.

Source: SharePartition of Kafka 4.2 (KIP-932, KIP-1206, KIP-1222).

Theory of operation
-------------------

*Records and runs.* The leader tracks every record from the start offset (SPSO) to the end offset (SPEO). It
does not store one object per record: a `Run` is a range of consecutive offsets that have the same state,
delivery count and lock. Runs are ordered and disjoint; what lies between two of them does not exist in the
log. A run is split when an event concerns a part of it, and coalesced with its neighbours when they become
equal again. `core.in_flight` keeps the runs, `core.transitions` has the table of legal transitions.

*Batches.* A run belongs to a `Batch`: the records that were acquired together for the first time. Batches are
redelivered whole. If a batch fails often, one of its records may be the cause, so the batch is *isolated*: no
other records go out with it, in portions that halve with each failure, and the last attempt of a record is
made alone. A member that crashes then costs one record its last attempt, not its neighbours (`core.acquire`).

*Pending transitions.* An acknowledgement takes effect once the share coordinator has stored it. Until then
the run stays ACQUIRED, with a `pending` transition and a `target`. It cannot be acquired, its lock does not
time out, and a rollback only has to forget the transition. Acquisition itself is never stored: after a
fail-over the records are available again, and their delivery counts are those of the last stored state.

*Writes.* At most one state write is in flight (`core.durability`). It is built when it is sent. Its start
offset passes only records whose final state is durable, or is part of this write.

*Three kinds of change are not acknowledgements and still have to be stored:*

1. A lock timeout takes effect at once. If its write fails, it is retried.
2. The start offset can move over records that no acknowledgement names: markers and aborted transactions. Lag
   is computed from the stored start offset, so it is written again when nothing in flight will carry it.
3. An acknowledgement may name records below the start offset, which are ignored (Kafka). If that start offset
   is not stored yet, the reply waits for a write: the next leader could deliver the records again.

*Order of calls.* `handle` applies one event and returns its effects; the shell performs them in the order of
`Effects`. To acquire: `fetch_offset`, read the log there, then `Acquire`. To write: after `write_due`, one
`next_write` at the end of the turn of the event loop, then `WriteCompleted`; `next_write` returns None if the
changes were rejected meanwhile. `TimerFired` may come early: it then returns the next deadline. After `Stop`
and `Retire` requests are rejected with NOT_LEADER_OR_FOLLOWER, and members release what they hold as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, AcquiredRange, AcquireMode, StateWrite
from sharebroker_server.share_partition_leader.core.durability import WriteQueue
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    Acquire,
    Configure,
    Counts,
    Effects,
    Event,
    Loaded,
    LoadedState,
    LostLock,
    MembersLeft,
    Reconcile,
    RenewAll,
    Reply,
    Retire,
    SharePartitionSettings,
    Stop,
    TimerFired,
    UndoAcquire,
    WriteCompleted,
)
from sharebroker_server.share_partition_leader.core.in_flight import Transition
from sharebroker_server.share_partition_leader.core.record_states import RecordStates

STATE_LOST: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of a state write after which the state has to be loaded again: somebody else changed it."""


class SharePartition:
    """One share-partition, without I/O, clock or log: `handle` takes an event and a time and returns effects.

    `tokens` is shared by all share-partitions of a partition under one leader epoch, of any group and after
    any reload: the token of an earlier acquisition must never fit a later lock. `settings` are the limits in
    effect, `counts` what happened to the records, `stopping`: requests are rejected. Raises: KafkaError
    UNKNOWN_SERVER_ERROR if the loaded state contradicts itself.
    """

    __slots__ = (
        "_abandoned",
        "_persisted_start",
        "_records",
        "_sent_start",
        "_writes",
        "counts",
        "settings",
        "stopping",
    )

    def __init__(
        self,
        settings: SharePartitionSettings,
        loaded: LoadedState,
        tokens: Iterator[int] | None = None,
        counts: Counts | None = None,
    ) -> None:
        self.settings = settings
        self.counts = counts or Counts()
        self.stopping = False
        self._records = RecordStates(settings, loaded, tokens, self.counts)
        self._writes = WriteQueue()
        self._sent_start = self._persisted_start = loaded.start_offset
        self._abandoned = False

    def handle(self, event: Event, now: float) -> Effects:
        """Applies an event; `now` in seconds. Returns what the shell has to do.

        Raises KafkaError for a request that is rejected; then nothing has changed. INVALID_REQUEST,
        INVALID_RECORD_STATE (see `core.acknowledge.Refusal`), NOT_LEADER_OR_FOLLOWER once it stops.
        """
        effects = Effects()
        _HANDLERS[type(event)](self, event, now, effects)
        return effects

    def next_write(self) -> StateWrite | None:
        """Builds the state write of everything that waits; None if it was rejected since `write_due`."""
        transitions = self._writes.take()
        if not transitions:
            return None
        write = self._records.write(transitions)
        self._sent_start = write.start_offset
        return write

    # Queries

    @property
    def loaded_under(self) -> tuple[int, int]:
        """The state epoch and the leader epoch under which the state was loaded."""
        return self._records.loaded_under

    @property
    def start_offset(self) -> int:
        """The share-partition start offset (SPSO) in memory."""
        return self._records.start_offset

    @property
    def writing(self) -> bool:
        """Whether a state write waits or is in flight."""
        return self._writes.busy

    @property
    def unused(self) -> bool:
        """Whether no lock is held and nothing has to be written."""
        return self._writes.idle and not self._records.any_locked()

    def fetch_offset(self, log_start: int, log_end: int) -> int | None:
        """Returns the offset to read the log from; None if nothing can be acquired below `log_end`.

        Follows the log start offset first: records below it are deleted (retention, DeleteRecords).
        Raises NOT_LEADER_OR_FOLLOWER once it stops.
        """
        if self.stopping:
            raise relinquished()
        self._records.move_log_start(log_start)
        offset = self._records.acquirable_offset()
        return offset if offset is not None and offset < log_end else None

    def next_deadline(self) -> float | None:
        """The time of the next `TimerFired`; it may be early, never late. None: nothing waits for a time."""
        lock, retry = self._records.next_deadline(), self._writes.retry_at
        if lock is None or retry is None:
            return retry if lock is None else lock
        return min(lock, retry)

    def next_is_throttled(self) -> bool:
        """Whether the next records failed so often that they are acquired alone and few at a time."""
        return self._records.next_is_throttled()

    def holds(self, member: str) -> bool:
        """Whether a member holds records; what it acknowledged counts until that is durable."""
        return self._records.holds(member)

    def held_by(self, member: str) -> list[AcquiredRange]:
        """What a member holds and has not acknowledged, in order."""
        return self._records.held_by(member)

    def held(self) -> list[LostLock]:
        """Every lock, as it would be lost if this object retired."""
        return self._records.held()

    def split_by_run(self, first: int, last: int) -> list[tuple[int, int]]:
        """Splits first..last into parts of which an acknowledgement succeeds or fails as a whole."""
        return self._records.split_by_run(first, last)

    def sizes(self) -> tuple[int, int, int, int]:
        """Offsets from start to end offset, runs, offsets in these runs, offsets that are locked."""
        return self._records.sizes()

    # Events

    def _loaded(self, event: Loaded, now: float, effects: Effects) -> None:
        self._persist_start_offset(effects)

    def _acquire(self, event: Acquire, now: float, effects: Effects) -> None:
        if self.stopping:
            raise relinquished()
        request, offset, log_batches, hidden = event
        records = self._records
        if hidden and hidden[0] == log_batches[0]:
            # The whole batch goes, whatever the request's limit: the caller reads on behind it.
            first, last = hidden[0]
            whole = request._replace(max_records=last - first + 1, mode=AcquireMode.BATCH_OPTIMIZED)
            records.archive_aborted(records.acquire(whole, offset, hidden[:1], now), hidden[:1])
            self._persist_start_offset(effects)
            return
        acquired = records.acquire(request, offset, log_batches, now)
        if hidden:
            acquired = records.archive_aborted(acquired, hidden)
        if acquired:
            self._abandoned = False
            effects.acquired = acquired
            effects.deadline = self.next_deadline()

    def _acknowledge(self, event: Acknowledge, now: float, effects: Effects) -> None:
        if self.stopping:
            raise relinquished()
        member, batches, reply, delay = event
        transition = self._records.acknowledge(member, batches, now, delay)
        if transition is None:
            self._reply_when_durable(transition, batches, reply, effects)
        else:
            self._writes.add(transition, reply, effects)

    def _reconcile(self, event: Reconcile, now: float, effects: Effects) -> None:
        if self.stopping:
            raise relinquished()
        member, batches, log_start, log_end, reply = event
        self._records.move_log_start(log_start)
        transition, effects.left = self._records.reconcile(member, batches, log_end, now)
        self._abandoned = False
        effects.deadline = self.next_deadline()
        self._reply_when_durable(transition, batches, reply, effects)

    def _renew_all(self, event: RenewAll, now: float, effects: Effects) -> None:
        self._records.renew_all(event.member, now)

    def _undo_acquire(self, event: UndoAcquire, now: float, effects: Effects) -> None:
        if self.stopping:
            raise relinquished()
        self._records.undo_acquire(event.member, event.batches)
        effects.wake = True

    def _members_left(self, event: MembersLeft, now: float, effects: Effects) -> None:
        for member in event.members:
            if event.undo:
                self._records.undo_all(member)
            else:
                transition = self._records.release_member(member, event.session)
                if transition is not None:
                    self._writes.add(transition, None, effects)
        effects.wake = event.undo
        self._abandoned = True
        effects.unused = self.unused

    def _configure(self, event: Configure, now: float, effects: Effects) -> None:
        self.settings = self._records.settings = event.settings
        effects.wake = True

    def _timer_fired(self, event: TimerFired, now: float, effects: Effects) -> None:
        lost, transition = self._records.expire(now)
        if transition is not None:
            effects.lost, effects.wake = lost, True
            self._writes.add(transition, None, effects)
        if self._writes.retry_at is not None and self._writes.retry_at <= now:
            self._writes.flush_retries(effects)
        effects.deadline = self.next_deadline()

    def _write_completed(self, event: WriteCompleted, now: float, effects: Effects) -> None:
        """The one place that decides what a failed write means.

        The transitions are rolled back and their requests rejected. If somebody else changed the stored
        state, the share-partition retires; else what could not be rolled back is written again later.
        """
        error = event.error
        transitions = self._writes.complete(error, effects)
        if error is None:
            self._persisted_start = self._sent_start
        effects.wake = self._records.complete(transitions, error.code if error else None).fetchable
        if error is not None and error.code in STATE_LOST:
            effects.retire = True
            return
        if error is not None and not self.stopping:
            self._writes.add_retries(transitions, now)
        self._persist_start_offset(effects)
        effects.deadline = self.next_deadline()
        effects.unused = self._abandoned and self.unused

    def _stop(self, event: Stop, now: float, effects: Effects) -> None:
        self.stopping = True
        self._writes.flush_retries(effects)

    def _retire(self, event: Retire, now: float, effects: Effects) -> None:
        self.stopping = True
        self._writes.reject_waiting(relinquished(), effects)
        effects.lost = self._records.held()

    # Rules of writing

    def _reply_when_durable(
        self, transition: Transition | None, batches: Sequence[AckBatch], reply: Reply, effects: Effects
    ) -> None:
        """Queues the transition. Without one replies now, unless the start offset must be stored first."""
        if transition is None:
            transition = self._records.late_ack_write(batches, self._persisted_start)
        if transition is None:
            effects.replies = ((reply, None),)
        else:
            self._writes.add(transition, reply, effects)

    def _persist_start_offset(self, effects: Effects) -> None:
        """Writes the start offset where no acknowledgement will carry it (see theory of operation, 2)."""
        transition = self._records.start_offset_to_persist(self._sent_start)
        if transition is not None and not self.stopping:
            self._writes.add(transition, None, effects)


def relinquished() -> KafkaError:
    """The error of requests to a share-partition that another leader serves, or will."""
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The leader no longer serves this share-partition.")


_HANDLERS: Final[Mapping[type, Callable[[SharePartition, Any, float, Effects], None]]] = {
    Loaded: SharePartition._loaded,
    Acquire: SharePartition._acquire,
    Acknowledge: SharePartition._acknowledge,
    Reconcile: SharePartition._reconcile,
    RenewAll: SharePartition._renew_all,
    UndoAcquire: SharePartition._undo_acquire,
    MembersLeft: SharePartition._members_left,
    Configure: SharePartition._configure,
    TimerFired: SharePartition._timer_fired,
    WriteCompleted: SharePartition._write_completed,
    Stop: SharePartition._stop,
    Retire: SharePartition._retire,
}
