"""The shell of a share-partition: reads the log, keeps the timer, and performs the effects of the core."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, StateWrite, TopicIdPartition
from sharebroker_server.leader_calls.values import Unreconciled
from sharebroker_server.persister.batching import WriteBatcher
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.share_partition_leader.core import events
from sharebroker_server.share_partition_leader.core.runs import is_held_by
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from sharebroker_server.share_partition_leader.share_partition.reading import (
    Fetched,
    NotFetched,
    bytes_of,
    cut_after,
    hidden_spans,
    latest_delivery,
    offsets_below,
    separated,
    share_key,
    split_expired,
    translated,
    visible_end,
    with_share_state,
)

if TYPE_CHECKING:
    from sharebroker_server.leases.names import Shard
    from sharebroker_server.record_log.log_reader import LogReader, Span
    from sharebroker_server.share_partition_leader.leadership import LedPartition

_log = structlog.get_logger()

DELIVERY_BYTES: Final = 1 << 20
"""Most bytes of record batches in one delivery; the first batch is delivered whatever its size."""

SKIP_SECONDS: Final = 1.0
"""Seconds in which one request reads on from the store while all that it reads is archived."""

SCHEDULES_AT_ONCE: Final = 1000
"""Ranges of scheduled records that are read in one step of the event loop."""

READS_AT_ONCE: Final = 16
"""Reads of the hot cache in one step of the event loop, if none of the records is delivered."""

STOP_TIMEOUT: Final = 5.0
"""Seconds that a share-partition has for its last writes when its partition is handed over."""

_WRITTEN: Final = events.WriteCompleted(None)


class ShareGroupPartition:
    """One group's share-partition on a led partition; a `WriteSource`.

    Once `retired` it rejects requests with NOT_LEADER_OR_FOLLOWER; a lookup then finds its successor.
    """

    def __init__(
        self, led: LedPartition, group_id: str, core: SharePartition, writes: WriteBatcher, shard: Shard
    ) -> None:
        self.key = share_key(group_id, led.log)
        self.group_id, self.topic_id, self.partition = self.key
        self.topic_partition = TopicIdPartition(self.topic_id, self.partition)
        self.topic = led.topic.name
        self.core = core
        self.retired = False
        self.shard = shard
        self.write_span: object = None
        self._led = led
        self._log: LogReader = led.log
        self._writes = writes
        self._observer: Observer | None = None if led.traces is None else led.traces.observer(group_id)
        self._reading = False
        self._warned: set[tuple[str, int]] = set()
        self._lock_listeners: dict[str, LockListener] = {}
        self._availability_listeners: dict[AvailabilityListener, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline = 0.0
        self._written_all: asyncio.Future[None] | None = None
        self._start_unstored = not core.loaded_state.start_stored
        if not self._start_unstored or self._log.records_end_offset > core.start_offset:
            self._begin()

    def _begin(self) -> None:
        """Puts the state in service, and stores a start offset that was resolved.

        Until a record can be delivered, such a start offset is not stored: Kafka's tools show none then.
        """
        self._start_unstored = False
        self.handle(events.Loaded())

    @property
    def log(self) -> LogReader:
        """The log of its partition."""
        return self._log

    # Listeners

    def join(self, listener: LockListener) -> None:
        """Registers a stream, which is notified of the locks it loses."""
        self._lock_listeners[listener.holder] = listener

    def leave(self, listener: LockListener, *, undo: bool = False) -> None:
        """Ends a stream: releases what it holds, except durable locks.

        With `undo` the member leaves: all that it holds is released, and this does not count as a delivery.
        """
        if self._lock_listeners.get(listener.holder) is listener:
            del self._lock_listeners[listener.holder]
        self.remove_listener(listener)
        self.handle(events.MembersLeft((listener.holder,), listener.session, undo=undo))

    def release_member(self, member_id: str, session_id: str = "", principal: str | None = None) -> None:
        """Releases what a member holds, also through its streams, or what one share session acquired.

        With `principal`, only what it acquired as this member.
        """
        holders = {held.member for held in self.core.in_flight.held()}
        left = [holder for holder in holders if is_held_by(holder, member_id, principal)]
        self.handle(events.MembersLeft(left, session_id))

    def add_listener(self, listener: AvailabilityListener) -> None:
        """Requests one notification when records may have become available."""
        self._availability_listeners[listener] = None

    def remove_listener(self, listener: AvailabilityListener) -> None:
        """Cancels `add_listener`."""
        self._availability_listeners.pop(listener, None)

    def wake(self) -> None:
        """Notifies the listeners, in the order in which they registered."""
        if self._start_unstored and self._log.records_end_offset > self.core.start_offset:
            self._begin()
        listeners, self._availability_listeners = self._availability_listeners, {}
        for listener in listeners:
            listener.records_available(self)

    # Requests

    def acquire(self, request: events.AcquireRequest, max_bytes: int = 0) -> Fetched | NotFetched:
        """Acquires records of the hot cache: one batch, and more up to `max_bytes` (0: DELIVERY_BYTES).

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER.
        """
        committed = self.core.settings.read_committed
        for _ in range(READS_AT_ONCE):
            offset = self._fetch_offset()
            if offset is None:
                return NotFetched.NO_RECORDS
            batches = self._log.read_hot(offset, _limit(max_bytes), committed=committed)
            if batches is None:
                return NotFetched.NOT_CACHED
            event = self._acquire_event(request, offset, batches)
            acquired = self.handle(event).acquired
            if acquired:
                return Fetched(acquired, bytes_of(batches, acquired))
            if self._fetch_offset() == offset:
                return NotFetched.NO_RECORDS
            if len(event.scheduled) == SCHEDULES_AT_ONCE:
                break
        # None of these records is delivered now. The caller reads on after another turn of the event loop.
        asyncio.get_running_loop().call_soon(self.wake)
        return NotFetched.NO_RECORDS

    async def acquire_uncached(
        self,
        request: events.AcquireRequest,
        max_bytes: int = 0,
        ended_sessions: Container[str] = frozenset(),
    ) -> Fetched | NotFetched:
        """Acquires records, read from the store if necessary; one read at a time.

        Reads on for up to SKIP_SECONDS while all records are archived, such as expired ones. Acquires nothing
        if the share session of the request has ended meanwhile. Raises KafkaError: KAFKA_STORAGE_ERROR,
        NOT_LEADER_OR_FOLLOWER.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + SKIP_SECONDS
        fetched = await self._acquire_read(request, max_bytes, ended_sessions)
        while fetched is NotFetched.NOT_CACHED and clock() < until:
            fetched = await self._acquire_read(request, max_bytes, ended_sessions)
        return fetched

    async def _acquire_read(
        self, request: events.AcquireRequest, max_bytes: int, ended_sessions: Container[str]
    ) -> Fetched | NotFetched:
        offset = self._fetch_offset()
        if offset is None:
            return NotFetched.NO_RECORDS
        self._reading = True
        try:
            batches = await self._log.read(
                offset, _limit(max_bytes), committed=self.core.settings.read_committed
            )
        finally:
            self._reading = False
            self.wake()
        if not (batches or self.core.stopping or offset >= self._log.records_end_offset):
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The log returned no records from {offset} on; it ends at {self._log.records_end_offset}.",
            )
        if request.session in ended_sessions:
            return NotFetched.NO_RECORDS
        acquired = self.handle(self._acquire_event(request, offset, batches)).acquired
        if acquired:
            return Fetched(acquired, bytes_of(batches, acquired))
        return self.acquire(request, max_bytes)

    def check_delay(self, delay_ms: float, setting: str) -> None:
        """Logs once if a delay exceeds `retention.ms`, which may delete the record before the delay ends."""
        retention_ms = self._log.retention_ms
        if not 0 <= retention_ms < delay_ms or (setting, retention_ms) in self._warned:
            return
        self._warned.add((setting, retention_ms))
        _log.warning(
            "delay exceeds the retention of the topic",
            group=self.group_id,
            topic=self.topic,
            setting=setting,
            delay_ms=round(delay_ms),
            retention_ms=retention_ms,
        )

    def check_backoff(self) -> None:
        """Logs once if the longest backoff of the group exceeds `retention.ms`."""
        backoff = self.core.settings.backoff
        if backoff is not None:
            self.check_delay(min(backoff.max_ms, backoff.limit_ms), "share.retry.backoff.max.ms")

    def count_deleted(self, log_start: int) -> None:
        """Counts the records that wait for the end of a delay, but that the log deleted."""
        in_flight = self.core.in_flight
        if in_flight.waiting:
            self.core.counts.deleted_waiting += offsets_below(in_flight.waiting_ranges(), log_start)

    def has_nothing_to_acquire(self) -> bool:
        """Whether nothing can be acquired now; a listener is notified when that may have changed."""
        return not self.core.stopping and self._fetch_offset() is None

    def reconcile(
        self, holder: str, batches: Sequence[AckBatch], reply: events.Reply
    ) -> Sequence[Unreconciled]:
        """Applies what can be applied of a planned batch's offsets; returns what was left unchanged.

        `reply` is called once the rest is durable. Raises KafkaError if nothing can be applied.
        """
        end = visible_end(self._log, committed=self.core.settings.read_committed)
        return self.handle(
            events.Reconcile(holder, batches, self._log.log_start_offset, end, reply)
        ).unreconciled

    def renewed_deadline(self, lock: float) -> float:
        """The deadline of a lock that is renewed now for `lock` seconds; 0: the group's length."""
        return now() + (lock or self.core.settings.lock_duration)

    # Writes (WriteSource)

    def next_write(self) -> StateWrite | None:
        """Returns the state write of everything that waits; None if it was rejected meanwhile."""
        write = self.core.next_write()
        if write is None:
            self._check_written()
        elif self._observer is not None:
            self.write_span = self._observer.write_started()
        return write

    def written(self, error: KafkaError | None) -> None:
        """The write that `next_write` returned is durable, or failed."""
        self.handle(_WRITTEN if error is None else events.WriteCompleted(translated(error)))
        if self._written_all is not None:
            self._check_written()

    # The end

    async def stop(self) -> None:
        """Accepts no more requests, waits up to STOP_TIMEOUT seconds for its writes, and retires."""
        self.handle(events.Stop())
        if self.core.writing:
            self._written_all = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._written_all], timeout=STOP_TIMEOUT)
        self.retire()

    def retire(self) -> None:
        """Ends now: locks are lost, changes whose write was not sent are rejected."""
        if self.retired:
            return
        self.retired = True
        if self._timer is not None:
            self._timer.cancel()
        self._led.forget(self)
        self.handle(events.Retire())
        lock_listeners, waiting = self._lock_listeners, self._availability_listeners
        self._lock_listeners, self._availability_listeners = {}, {}
        for listener in dict.fromkeys((*lock_listeners.values(), *waiting)):
            listener.retired(self)

    def drop_unused(self) -> None:
        """Retires if nothing is held, waits or is written; the next use loads the state again.

        So an altered start offset takes effect, and deleted groups use no memory (Kafka: with the last
        session). A resolved start offset is stored before.
        """
        if self._lock_listeners or self._availability_listeners or self._reading:
            return
        if self._start_unstored:
            self._begin()
        if self.core.unused:
            self.retire()

    def _check_written(self) -> None:
        if self._written_all is not None and not self.core.writing and not self._written_all.done():
            self._written_all.set_result(None)

    # Reading

    def _fetch_offset(self) -> int | None:
        """Where to read next; None if nothing can be acquired, or a read is in progress."""
        if self._reading:
            return None
        end = visible_end(self._log, committed=self.core.settings.read_committed)
        return self.core.fetch_offset(self._log.log_start_offset, end)

    def _acquire_event(
        self, request: events.AcquireRequest, offset: int, batches: Sequence[StoredBatch]
    ) -> events.Acquire:
        """Returns the event that acquires records of `batches`, which were read at `offset`."""
        committed, max_age = self.core.settings.read_committed, self.core.settings.max_record_age
        if committed:
            batches = [batch for batch in batches if batch.last_offset < self._log.last_stable_offset]
        if self._observer is not None:
            self._observer.fetched(batches)
        expired: Sequence[Span] = ()
        transactions = self._log.transactions
        if max_age:
            latest, with_state = latest_delivery(self._log, self.group_id), bool(transactions.share)
            oldest_ms = (now() - max_age) * 1000
            spans, expired, batches = split_expired(batches, oldest_ms, latest, adjacent=with_state)
        else:
            spans = [(batch.base_offset, batch.last_offset) for batch in batches]
        markers = request.with_markers
        hidden = hidden_spans(self._log, batches, committed, self.group_id, with_markers=markers)
        if transactions.share:
            spans, hidden = with_share_state(spans, hidden)
        if hidden and transactions.has_skipped:
            spans = separated(spans, hidden, offset)
            hidden = [span for span in hidden if span[1] >= offset]
        scheduled: Sequence[events.Scheduled] = ()
        if transactions.schedules.ranges and batches:
            end = batches[-1].last_offset + 1
            scheduled = list(transactions.schedules.between(offset, end, SCHEDULES_AT_ONCE))
            if len(scheduled) == SCHEDULES_AT_ONCE and spans[0] not in (*hidden[:1], *expired[:1]):
                spans = cut_after(spans, scheduled[-1][1])
        return events.Acquire(request, offset, spans, hidden, expired, scheduled)

    # Effects

    def handle(self, event: events.Event) -> events.Effects:
        """Applies an event and performs its effects. Raises KafkaError if the event is rejected."""
        try:
            effects = self.core.handle(event, now())
        except KafkaError as error:
            if self._observer is not None:
                self._observer.rejected(event, error)
            raise
        if self._observer is not None:
            self._observer.observe(event, effects)
        self._perform(effects)
        return effects

    def _perform(self, effects: events.Effects) -> None:
        if effects.write_due:
            self._writes.add(self)
        for reply, error in effects.replies:
            reply(error)
        for lost in effects.lost:
            listener = self._lock_listeners.get(lost.member)
            if listener is not None:
                listener.lock_lost(self, lost)
        if effects.deadline is not None:
            self._arm(effects.deadline)
        if effects.wake:
            self.wake()
        if effects.archiving:
            self._led.archiving(self)
        if effects.retire:
            self.retire()
        elif effects.unused:
            self.drop_unused()

    def _arm(self, deadline: float) -> None:
        """Keeps one timer, for the next deadline; a timer that fires early does no harm."""
        if self._timer is not None:
            if deadline >= self._timer_deadline:
                return
            self._timer.cancel()
        if not self.retired:
            self._timer_deadline = deadline
            self._timer = asyncio.get_running_loop().call_later(deadline - now(), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.handle(events.TimerFired())


def _limit(max_bytes: int) -> int:
    return min(max_bytes or DELIVERY_BYTES, DELIVERY_BYTES)


class AvailabilityListener(Protocol):
    """A stream, fetch or watch that found no records."""

    def records_available(self, share_partition: ShareGroupPartition) -> None:
        """Records may have become available; called once per registration."""

    def retired(self, share_partition: ShareGroupPartition) -> None:
        """This object is no longer in service; locks acquired through it are lost."""


class LockListener(AvailabilityListener, Protocol):
    """A stream, which acquires records under a name of its own, or for its member in its own `session`."""

    holder: str
    session: str

    def lock_lost(self, share_partition: ShareGroupPartition, lost: events.LostLock) -> None:
        """A lock of this stream ended before its records were acknowledged."""


class Observer(Protocol):
    """Observes what a share-partition does, for tracing; a process without tracing has none."""

    def fetched(self, batches: Sequence[StoredBatch]) -> None:
        """Record batches were read; called before the `Acquire` of them."""

    def observe(self, event: events.Event, effects: events.Effects) -> None:
        """An event was applied."""

    def rejected(self, event: events.Event, error: KafkaError) -> None:
        """An event was rejected."""

    def write_started(self) -> object:
        """Everything queued so far is part of a write that is sent now; returns its span, or None."""
