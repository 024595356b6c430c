"""The background of a share consumer: membership, stream and lock renewal.

Theory of operation
-------------------

An engine belongs to one event loop. While the consumer is subscribed, these tasks run:

- `GroupMember` keeps the membership alive, independently of the application's polls.
- `_run_streams` opens one `ConsumeStream` after the other. Each stream has an `Accumulator` of its own, so an
  acquisition of an earlier stream is recognised by its sink and never acknowledged on a later one: the server
  released its records when the stream ended. Acquisitions with durable locks move to the accumulator of
  `DurableLocks`, a fourth task.
- `_maintain_locks` renews locks (`auto_renew`) and undoes the acquisition of records that the application
  does not poll for.

The tasks put records, callbacks and errors into the `DeliveryQueue`; the application's calls (`next_turn`,
`wait_until`, `leave`) remove them. Callbacks run in the application's thread, never in the engine.

Methods must be called in the event loop, except for `wake_up` and `abandon`. `prefetched` and the accumulator
are shared with the application's thread.

`leave` depends on its order: the membership stops, held records are released, the stream sends the rest and
ends, and only then the final heartbeat leaves the group. The coordinator must not assign the partitions to
other members while acknowledgements are unsent.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from sharebroker.aio.connection import Connection, ConnectWarnings
from sharebroker.aio.delivery_queue import DeliveryQueue, Turn
from sharebroker.aio.durable_locks import DurableLocks
from sharebroker.aio.group_start import set_offset_reset, warn_of_missing
from sharebroker.aio.heartbeats import GroupMember
from sharebroker.aio.stream import ConsumeStream, subscribe_request
from sharebroker.client_errors import ConnectionLostError
from sharebroker.consumer.accumulator import (
    Accumulator,
    ImplicitAccumulator,
    LostOffsets,
    PendingAckBatch,
    Renewal,
)
from sharebroker.consumer.config import AcknowledgementOutcome, ConsumerConfig
from sharebroker.consumer.flow_control import FlowControl
from sharebroker.consumer.lost_locks import describe, received
from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.batches import Decoded
from sharebroker_protocol.records.record import AcknowledgeType, Record, spans

T = TypeVar("T")
_MAX_STORED_OFFSETS = 100_000  # limits memory if the application never commits
_STREAM_END_TIMEOUT: Final = 5.0  # seconds that the server has to end a stream
_CONFIRMATION_INTERVAL: Final = 0.05  # seconds
_LONGEST_UNPOLLED: Final = 30.0
"""Seconds after which records that the application does not poll for are returned, however long the locks."""

_log = logging.getLogger(__name__)


class ConsumerEngine:
    """The background tasks of one consumer in its event loop."""

    def __init__(self, connection: Connection, group_id: str, config: ConsumerConfig) -> None:
        self.connection = connection
        self._group_id = group_id
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._queue = DeliveryQueue()
        self.prefetched: deque[Record] = deque()
        """Acquired records that no call has returned. A record belongs to the side that pops it."""
        self._flow_control = FlowControl(config.max_poll_records, config.prefetch_records)
        self._leaving = False
        self._writer_wake = asyncio.Event()
        self._durable_wake = asyncio.Event()
        self._durable = self._new_accumulator(self._durable_wake)
        self._accumulator = self._new_accumulator(self._writer_wake, self._durable)
        self._stream: ConsumeStream | None = None
        self._renewal = Renewal()
        self._outcomes: deque[AcknowledgementOutcome] = deque()
        self._stored_offsets = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.lock_timeout: float | None = None
        self._member = GroupMember(connection, group_id, config, self._queue, self._update_assignment)
        self.member_id = self._member.id
        self.membership = self._member.membership

    # Calls of the application

    def subscribe(self, topics: frozenset[str]) -> None:
        """Joins the group with these topics, or replaces the subscribed topics."""
        self.membership.subscribe(topics)
        self._member.wake()
        if not self._tasks:
            self._leaving = False
            self._start(self._run_member())
            self._start(self._run_streams())
            self._start(self._maintain_locks())
            member = (self._group_id, self.member_id)
            self._durable = self._new_accumulator(self._durable_wake)
            durable = DurableLocks(self.connection, member, self._config, self._durable, self.on_lock_lost)
            self._start(durable.run(self._durable_wake))
        self._start(warn_of_missing(self.connection, topics, self._config.request_timeout_ms / 1000))

    async def next_turn(self, timeout: float | None, *, poll: bool) -> Turn:
        """Waits for records or callbacks, at most `timeout` seconds (None: no limit).

        With `poll` the credit covers `max_poll_records`, else the prefetch window. Raises WakeupError, errors
        of the stream, and the error that ended the membership.
        """
        self._flow_control.poll_started(self._loop.time(), poll=poll)
        self._writer_wake.set()
        try:
            return await self._wait_for_turn(timeout)
        finally:
            self._flow_control.poll_returned(self._loop.time())
            self._undo_late_records()

    async def _wait_for_turn(self, timeout: float | None) -> Turn:
        await asyncio.sleep(0)  # lets the stream run even if records are always available
        deadline = None if timeout is None else self._loop.time() + timeout
        whole = self._config.share_acquire_mode == "batch_optimized"
        while True:
            if self.membership.error is not None:
                raise self.membership.error
            turn = self._queue.next_turn(self._config.max_poll_records, whole=whole)
            if turn.records:
                self._flow_control.prefetch_window.poll_returned(len(turn.records), self._loop.time())
            if turn.records or turn.callbacks or not await self._queue.wait(deadline):
                return turn

    async def wait_until(self, condition: Callable[[], bool], timeout: float) -> Turn:
        """Waits until `condition` holds or callbacks are due, at most `timeout` seconds."""
        deadline = self._loop.time() + timeout
        while True:
            callbacks = self._queue.pop_callbacks()
            if callbacks or condition() or not await self._queue.wait(deadline):
                return Turn(callbacks=callbacks)

    async def pending(self) -> Turn:
        """Returns the acknowledgements without an outcome."""
        return Turn(pending=[*self._durable.pending(), *self._accumulator.pending()])

    def pop_outcomes(self) -> list[AcknowledgementOutcome]:
        """Returns the outcomes since the last call, limited to those of the latest 100,000 offsets."""
        outcomes = []
        while self._outcomes:
            outcomes.append(self._outcomes.popleft())
        self._stored_offsets = 0
        return outcomes

    @property
    def has_unconfirmed(self) -> bool:
        """Whether an acknowledgement is queued or in flight."""
        return self._accumulator.has_unconfirmed or self._durable.has_unconfirmed

    async def leave(self, open_records: list[Record], timeout: float) -> Turn:
        """Leaves the group within `timeout` seconds.

        Releases `open_records`, which the application holds, and undoes the acquisition of prefetched
        records.
        """
        deadline = self._loop.time() + timeout
        assigned = self.membership.assigned
        self.membership.leave()
        self._leaving = True
        self._flow_control.stop_prefetch()
        self._queue.clear()
        self.prefetched.clear()
        for accumulator in (self._accumulator, self._durable):
            for acquisition, first, last in spans(_held_by(accumulator, open_records)):
                accumulator.queue_internal(acquisition, (first, last), AcknowledgeType.RELEASE)
        if self._stream is not None:
            self._stream.finish()
            await asyncio.wait(self._tasks[1:2], timeout=min(timeout, _STREAM_END_TIMEOUT))
        until = min(deadline, self._loop.time() + _STREAM_END_TIMEOUT)
        while self._durable.has_unconfirmed and self._loop.time() < until:
            await self._queue.wait(min(until, self._loop.time() + _CONFIRMATION_INTERVAL))
        await end(self._tasks[1:])
        for accumulator in (self._accumulator, self._durable):
            accumulator.close(ConnectionLostError("the consumer left the group"))
        if self._tasks:
            self._member.wake()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._member.idle()
            await end(self._tasks[:1])
            self._tasks.clear()
        listener = self._config.listener
        if listener is not None and assigned:
            names = await self._member.with_topic_names(assigned)
            self._queue.put_callback(lambda: listener.on_partitions_revoked(names))
        return Turn(callbacks=self._queue.pop_callbacks())

    @property
    def running(self) -> bool:
        """Whether background tasks run, so that `leave` is required."""
        return bool(self._tasks)

    def abandon(self) -> None:
        """Cancels the background tasks without leaving the group. May be called from any thread."""
        with suppress(RuntimeError):  # the loop is closed: no task runs
            self._loop.call_soon_threadsafe(self._end_all)

    def _end_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    def wake_up(self) -> None:
        """Interrupts the application's wait. May be called from any thread."""
        self._loop.call_soon_threadsafe(self._queue.wake_up)

    # Events of the stream (see StreamOwner)

    def credit(self, held: int, outstanding: int) -> int:
        """Returns the credit to send, given the records held and outstanding; negative withdraws credit."""
        return self._flow_control.credit(held + self._durable.unacknowledged, outstanding)

    def on_subscribed(self, lock_timeout: float) -> None:
        """Stores the length of the stream's locks, in seconds."""
        self.lock_timeout = lock_timeout
        self._flow_control.prefetch_window.set_lock_timeout(lock_timeout)

    def on_decoded(self, decoded: Decoded) -> None:
        """Queues records, and an error for each corrupt batch, for the application."""
        for span in decoded.unreadable:
            if span.kind is AcknowledgeType.REJECT:
                where = f"{span.acquisition.topic}-{span.acquisition.partition}"
                text = f"Batch {where}@{span.first}..{span.last} is corrupt; it was rejected."
                self._queue.put_error(KafkaError(ErrorCode.CORRUPT_MESSAGE, text))
        if decoded.records:
            self._queue.put_records(decoded.records)
            if self._config.auto_renew:
                self._renewal.watch(decoded.records, self._loop.time())
            self._undo_late_records()

    def on_lock_lost(self, lost: list[LostOffsets], reason: str) -> None:
        """Stops prefetching until the next poll and reports the records."""
        self._flow_control.stop_prefetch()
        self._writer_wake.set()  # credit is available again
        self._report_lost(lost, reason)

    def on_ended(self, lost: list[LostOffsets], reason: str) -> None:
        """Reports the records, unless the consumer gave them up because it leaves."""
        if self._leaving:
            return
        self._report_lost(lost, reason)
        if self._config.auto_renew:  # at once, so that a lock that did not outlive the stream is reported
            self._renewal.renew((self._durable,), self._loop.time(), 0.0)

    def _report_lost(self, lost: list[LostOffsets], reason: str) -> None:
        """Logs the records that the application received, as one warning, and queues their callbacks."""
        waiting = [*self._queue.records(), *self.prefetched.copy()]
        records = received(lost, waiting, reason)
        if records:
            _log.warning("%s", describe(records))
        callback = self._config.lock_lost_callback
        if callback is not None:
            for record in records:
                self._queue.put_callback(partial(_call_logged, callback, record))

    # Background tasks

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Fails the membership after an unexpected exception, so that the application stops waiting."""
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            _log.error("consumer background task failed", exc_info=failure)
            self.membership.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(failure)))
            self._queue.notify()

    def _new_accumulator(self, wake: asyncio.Event, successor: Accumulator | None = None) -> Accumulator:
        explicit = self._config.share_acknowledgement_mode == "explicit"
        accumulator = Accumulator if explicit else ImplicitAccumulator
        return accumulator(partial(self._set, wake), self._on_outcome, successor)

    def _on_outcome(self, batch: PendingAckBatch, error: KafkaError | None) -> None:
        """Passes an outcome to the event loop.

        The application's thread calls it when it acknowledges on a stream that has ended.
        """
        acquisition = batch.acquisition
        offsets = range(batch.first, batch.last + 1)
        outcome = AcknowledgementOutcome(acquisition.topic, acquisition.partition, offsets, batch.kind, error)
        if threading.get_ident() == self._thread:
            self._store_outcome(outcome)
        else:
            with suppress(RuntimeError):  # the loop is closed: the outcome is not needed
                self._loop.call_soon_threadsafe(self._store_outcome, outcome)

    def _store_outcome(self, outcome: AcknowledgementOutcome) -> None:
        """Stores an outcome for `commit`, queues the callback, and wakes calls that wait."""
        self._outcomes.append(outcome)
        self._stored_offsets += len(outcome.offsets)
        while self._stored_offsets > _MAX_STORED_OFFSETS and self._outcomes:
            self._stored_offsets -= len(self._outcomes.popleft().offsets)
        callback = self._config.acknowledgement_commit_callback
        if callback is not None:
            self._queue.put_callback(lambda: _call_logged(callback, outcome))
        self._queue.notify()

    def _set(self, wake: asyncio.Event) -> None:
        """Wakes a writer; called by the application after it acknowledged."""
        if threading.get_ident() == self._thread:
            wake.set()
        else:
            self._loop.call_soon_threadsafe(wake.set)

    async def _run_member(self) -> None:
        """Sets where the group starts, then sends heartbeats."""
        try:
            await set_offset_reset(self.connection, self._group_id, self._config)
        except KafkaError as error:
            self.membership.fail(error)
            self._queue.notify()
            return
        await self._member.run()

    async def _run_streams(self) -> None:
        """Runs one stream after the other, with back-off, while the consumer is subscribed."""
        wait, warnings = self._config.retry_backoff_ms / 1000, ConnectWarnings("consumer")
        while not self._leaving:
            self._accumulator = self._new_accumulator(self._writer_wake, self._durable)
            self._stream = stream = ConsumeStream(self, self._accumulator, self._writer_wake)
            stream.assignment = self.membership.assigned
            started = self._loop.time()
            try:
                subscribe = subscribe_request(self._group_id, self.member_id, self._config)
                await stream.run(self.connection, subscribe)
            except KafkaError as error:
                if stream.connected:
                    warnings.succeeded()
                else:
                    warnings.failed(error, self._loop.time())
                # A stream that the server accepted ends with its access token; the next one has a new token.
                expired = stream.connected and error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
                if _fatal(error) and not expired:
                    self.membership.fail(error)
                    self._queue.notify()
                    return
            finally:
                self._stream = None
            self._queue.notify()
            if self._loop.time() - started > self._config.retry_backoff_max_ms / 1000:
                wait = self._config.retry_backoff_ms / 1000
            await asyncio.sleep(wait)
            wait = min(wait * 2, self._config.retry_backoff_max_ms / 1000)

    async def _maintain_locks(self) -> None:
        """Renews locks and undoes records that the application did not poll for in time."""
        while True:
            lock_timeout = self.lock_timeout or 1.0
            longest_wait = min(lock_timeout / 2, _LONGEST_UNPOLLED)
            await asyncio.sleep(longest_wait / 4)
            now = self._loop.time()
            self._undo_older(now - longest_wait)
            if self._flow_control.stop_prefetch_after(longest_wait, now):
                self._writer_wake.set()
            if self._config.auto_renew:
                self._renewal.renew((self._accumulator, self._durable), now, lock_timeout / 3)

    def _undo_late_records(self) -> None:
        """Undoes records that arrived after the poll returned, if prefetching is disabled."""
        if self._flow_control.discards_late_records:
            self._undo_older(float("inf"))
            self._writer_wake.set()

    def _undo_older(self, before: float) -> None:
        """Undoes the acquisition of unreturned records that arrived before `before` (loop time)."""
        waiting = self._queue.remove_older(before)
        with suppress(IndexError):
            while self.prefetched[0].acquisition.since < before:
                waiting.append(self.prefetched.popleft())
        if waiting:
            self._flow_control.stop_prefetch()
            for accumulator in (self._accumulator, self._durable):
                accumulator.undo(_held_by(accumulator, waiting))

    def _update_assignment(self) -> None:
        """Passes a changed assignment to the stream."""
        if self._stream is not None and self._stream.assignment != self.membership.assigned:
            self._stream.assignment = self.membership.assigned
            self._writer_wake.set()


def _held_by(accumulator: Accumulator, records: Iterable[Record]) -> list[Record]:
    """Filters records of an accumulator's acquisitions whose lock is not lost."""
    own = (record for record in records if record.acquisition.sink is accumulator)
    return [record for record in own if not record.lock_lost]


def _call_logged(callback: Callable[[T], None], argument: T) -> None:
    """Calls a notification callback; logs its exception."""
    try:
        callback(argument)
    except Exception:
        _log.exception("callback %s raised an exception", getattr(callback, "__name__", "unknown"))


def _fatal(error: KafkaError) -> bool:
    """Whether opening another stream cannot succeed.

    UNKNOWN_SERVER_ERROR is not fatal: in most cases it is a failure of the transport.
    """
    return not error.retriable and error.code is not ErrorCode.UNKNOWN_SERVER_ERROR
