"""The background of a share consumer: membership, stream, renewal, and what they have for the application."""

from __future__ import annotations

import asyncio
import base64
import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from math import inf
from typing import Any, Final, TypeVar

from sharebroker.acks.accumulator import Accumulator, Run
from sharebroker.aio.connect_warnings import Trouble
from sharebroker.aio.connection import Connection, call
from sharebroker.aio.delivery_queue import DeliveryQueue, Turn
from sharebroker.aio.heartbeats import Heartbeats
from sharebroker.aio.renewal import Renewal
from sharebroker.aio.stream import ConsumeStream
from sharebroker.client_errors import ConnectionLostError
from sharebroker.consumer.config import AcknowledgementOutcome, ConsumerConfig, LockLost
from sharebroker.consumer.flow_control import FlowControl
from sharebroker_protocol.cancellation import end
from sharebroker_protocol.delivery.v1.delivery_pb2 import AcquireMode
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1.admin_pb2 import MetadataRequest
from sharebroker_protocol.gateway.v1.share_pb2 import ConsumeRequest
from sharebroker_protocol.membership.machine import Membership, MembershipSettings
from sharebroker_protocol.membership.reconciler import Callback, CallbackKind, Partitions
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.records.decode import Decoded
from sharebroker_protocol.records.record import AcknowledgeType, Record, spans

T = TypeVar("T")
_REMEMBERED = 100_000  # records whose outcome is kept for an application that never commits
_GOODBYE: Final = 5.0  # seconds for the server to end a stream
log = logging.getLogger("sharebroker")


class ConsumerEngine:
    """One consumer in its event loop. Its methods belong to that loop, but for `wake_up`."""

    def __init__(self, connection: Connection, group_id: str, config: ConsumerConfig) -> None:
        self._connection = connection
        self._group_id = group_id
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._queue = DeliveryQueue()
        self.ahead: deque[Record] = deque()
        """Taken for the application and not given to it yet. Who pops a record has it, in whatever thread."""
        self._flow_control = FlowControl(config.max_poll_records, config.prefetch_records)
        self._leaving = False
        self._writer_wake = asyncio.Event()
        self._accumulator = self._new_accumulator()
        self._stream: ConsumeStream | None = None
        self._renewal = Renewal()
        self._outcomes: deque[AcknowledgementOutcome] = deque()
        self._remembered = 0
        self._topic_names: dict[str, str] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.lock_timeout: float | None = None
        self.membership = Membership(
            MembershipSettings(
                config.client_rack,
                config.listener is not None,
                config.retry_backoff_ms / 1000,
                config.retry_backoff_max_ms / 1000,
            )
        )
        self._heartbeats = Heartbeats(connection, self.membership, self._membership_changed)
        self._heartbeats.identify(group_id, self.member_id, config.client_id)

    # The application's calls

    def subscribe(self, topics: frozenset[str]) -> None:
        """Join with these topics, or change to them."""
        self.membership.subscribe(topics)
        self._heartbeats.wake()
        if not self._tasks:
            self._leaving = False
            self._start(self._heartbeats.run(self._config.request_timeout_ms / 1000))
            self._start(self._stream_on())
            self._start(self._tend())

    async def advance(self, timeout: float | None, *, poll: bool) -> Turn:
        """Wait for records or duties, at most `timeout` seconds; raises what ends or interrupts the wait.

        With `poll` there is to be room for `max_poll_records`; else as much as the application's pace
        deserves.
        """
        self._flow_control.come(self._loop.time(), poll=poll)
        self._writer_wake.set()
        try:
            return await self._take(timeout)
        finally:
            self._flow_control.go(self._loop.time())
            self._tidy_up()

    async def _take(self, timeout: float | None) -> Turn:
        await asyncio.sleep(0)  # the stream gets its turn even when records never run out
        deadline = None if timeout is None else self._loop.time() + timeout
        whole = self._config.share_acquire_mode == "batch_optimized"
        while True:
            if self.membership.error is not None:
                raise self.membership.error
            turn = self._queue.take(self._config.max_poll_records, whole=whole)
            if turn.records:
                self._flow_control.prefetch_window.poll_returned(len(turn.records), self._loop.time())
            if turn.records or turn.callbacks or not await self._queue.wait(deadline):
                return turn

    async def until(self, condition: Callable[[], bool], timeout: float) -> Turn:
        """Wait until `condition` holds or there are duties, at most `timeout` seconds."""
        deadline = self._loop.time() + timeout
        while True:
            callbacks = self._queue.take_callbacks()
            if callbacks or condition() or not await self._queue.wait(deadline):
                return Turn(callbacks=callbacks)

    async def pending(self) -> Turn:
        """The acknowledgements that wait for their outcome."""
        return Turn(pending=self._accumulator.pending())

    def take_outcomes(self) -> list[AcknowledgementOutcome]:
        """All outcomes since the last call, but no more than the latest hundred thousand records' or so."""
        taken = []
        while self._outcomes:
            taken.append(self._outcomes.popleft())
        self._remembered = 0
        return taken

    @property
    def unsettled(self) -> bool:
        """Whether an acknowledgement is on its way."""
        return self._accumulator.unsettled

    async def leave(self, open_records: list[Record], timeout: float) -> Turn:
        """Release what the application holds, give back what it has not seen, leave the group."""
        deadline = self._loop.time() + timeout
        assigned = self.membership.assigned
        self.membership.leave()
        self._leaving = True
        self._flow_control.stop_prefetch()
        self._queue.clear()
        self.ahead.clear()
        for acquisition, first, last in spans(self._held_now(open_records)):
            self._accumulator.add_silent(acquisition, (first, last), AcknowledgeType.RELEASE)
        if self._stream is not None:
            self._stream.finish()
            await asyncio.wait(self._tasks[1:2], timeout=min(timeout, _GOODBYE))
        await end(self._tasks[1:])
        self._accumulator.close(ConnectionLostError("the consumer has left"))
        if self._tasks:
            self._heartbeats.wake()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._heartbeats.idle()
            await end(self._tasks[:1])
            self._tasks.clear()
        listener = self._config.listener
        if listener is not None and assigned:
            names = await self._named(assigned)
            self._queue.put_callback(lambda: listener.on_partitions_revoked(names))
        return Turn(callbacks=self._queue.take_callbacks())

    @property
    def running(self) -> bool:
        """Whether there is anything to leave."""
        return bool(self._tasks)

    def abandon(self) -> None:
        """Nobody will come again: end the background at once. From any thread."""
        with suppress(RuntimeError):  # the loop is closed, and so is all else
            self._loop.call_soon_threadsafe(self._end_all)

    def _end_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    def wake_up(self) -> None:
        """Interrupt the application's wait."""
        self._loop.call_soon_threadsafe(self._queue.wake_up)

    # The stream's events

    def credit(self, held: int, on_the_way: int) -> int:
        """How many records more to ask for, when so many are held and asked for; below 0: to take back."""
        return self._flow_control.credit(held, on_the_way)

    def on_subscribed(self, lock_timeout: float) -> None:
        """The group's lock duration."""
        self.lock_timeout = lock_timeout
        self._flow_control.prefetch_window.set_lock_timeout(lock_timeout)

    def on_decoded(self, decoded: Decoded) -> None:
        """Records for the application."""
        for span in decoded.unreadable:
            if span.kind is AcknowledgeType.REJECT:
                where = f"{span.acquisition.topic}-{span.acquisition.partition}"
                text = f"The batch with offsets {span.first} to {span.last} of {where} is corrupt; rejected."
                self._queue.put_error(KafkaError(ErrorCode.CORRUPT_MESSAGE, text))
        if decoded.records:
            self._queue.put_records(decoded.records)
            if self._config.auto_renew:
                self._renewal.watch(decoded.records, self._loop.time())
            self._tidy_up()

    def on_lock_lost(self, lost: LockLost) -> None:
        """An application that does not come for its records is sent no more until it does."""
        self._flow_control.stop_prefetch()
        self._writer_wake.set()  # there is room for others
        callback = self._config.lock_lost_callback
        if callback is not None:
            self._queue.put_callback(lambda: _quietly(callback, lost))

    # The background tasks

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task that fails in a way nobody foresaw must not leave the application waiting."""
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            log.error("the consumer's background failed", exc_info=failure)
            self.membership.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(failure)))
            self._queue.notify()

    def _new_accumulator(self) -> Accumulator:
        explicit = self._config.share_acknowledgement_mode == "explicit"
        return Accumulator(self._wake_writer, explicit, self._settled)

    def _settled(self, run: Run, error: KafkaError | None) -> None:
        """Note an outcome; from the application's thread when the connection was gone before its word."""
        of = run.acquisition
        offsets = range(run.first, run.last + 1)
        outcome = AcknowledgementOutcome(of.topic, of.partition, offsets, run.kind, error)
        if threading.get_ident() == self._thread:
            self._note(outcome)
        else:
            with suppress(RuntimeError):  # the loop ended with the consumer: nobody asks it any more
                self._loop.call_soon_threadsafe(self._note, outcome)

    def _note(self, outcome: AcknowledgementOutcome) -> None:
        """Keep it for a commit and the callback, and wake whoever waits for all to be settled."""
        self._outcomes.append(outcome)
        self._remembered += len(outcome.offsets)
        while self._remembered > _REMEMBERED and self._outcomes:
            self._remembered -= len(self._outcomes.popleft().offsets)
        callback = self._config.acknowledgement_commit_callback
        if callback is not None:
            self._queue.put_callback(lambda: _quietly(callback, outcome))
        self._queue.notify()

    def _wake_writer(self) -> None:
        """From the application's thread or task: there are acknowledgements to send."""
        if threading.get_ident() == self._thread:
            self._writer_wake.set()
        else:
            self._loop.call_soon_threadsafe(self._writer_wake.set)

    async def _stream_on(self) -> None:
        """One stream after the other, for as long as the consumer is subscribed."""
        wait, trouble = self._config.retry_backoff_ms / 1000, Trouble()
        while not self._leaving:
            self._accumulator = self._new_accumulator()
            self._stream = stream = ConsumeStream(self, self._accumulator, self._writer_wake)
            stream.assignment = self.membership.assigned
            started = self._loop.time()
            try:
                await stream.run(self._connection.share, self._opening())
            except KafkaError as error:
                if stream.heard:
                    trouble.over()
                else:
                    trouble.failed(error, self._loop.time())
                if _fatal(error):
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

    def _opening(self) -> ConsumeRequest.Subscribe:
        strict = self._config.share_acquire_mode == "record_limit"
        mode = AcquireMode.ACQUIRE_MODE_RECORD_LIMIT if strict else AcquireMode.ACQUIRE_MODE_UNSPECIFIED
        return ConsumeRequest.Subscribe(
            group_id=self._group_id,
            member_id=self.member_id,
            acquire_mode=mode,
            batch_size=self._config.max_poll_records,
            client_id=self._config.client_id,
            pause_on_lock_lost=True,
        )

    async def _tend(self) -> None:
        """Look after locks: renew what is to be kept, give back what the application does not come for."""
        while True:
            lasts = self.lock_timeout or 1.0
            await asyncio.sleep(lasts / 8)
            now = self._loop.time()
            self._give_back(now - lasts / 2)
            if self._flow_control.stop_prefetch_after(lasts / 2, now):
                self._writer_wake.set()
            if self._config.auto_renew:
                self._renewal.renew(self._accumulator, now, lasts / 3)

    def _tidy_up(self) -> None:
        """Without prefetching a poll takes only what it returns."""
        if self._flow_control.discards_late_records:
            self._give_back(inf)
            self._writer_wake.set()

    def _give_back(self, before: float) -> None:
        """Let others have what came before `before` (loop time) and was not seen."""
        waiting = self._queue.remove_older(before)
        with suppress(IndexError):
            while self.ahead[0].acquisition.since < before:
                waiting.append(self.ahead.popleft())
        if waiting:
            self._flow_control.stop_prefetch()
            self._accumulator.give_back(self._held_now(waiting))

    def _held_now(self, records: Iterable[Record]) -> list[Record]:
        """Those whose locks are not lost, as far as is known: to be told of on the present stream."""
        of_now = (record for record in records if record.acquisition.sink is self._accumulator)
        return [record for record in of_now if not record.lock_lost]

    # Membership

    async def _membership_changed(self) -> None:
        """After each heartbeat and each callback: pass on what the membership has come to."""
        if self._stream is not None and self._stream.assignment != self.membership.assigned:
            self._stream.assignment = self.membership.assigned
            self._writer_wake.set()
        while (callback := self.membership.next_callback()) is not None:
            self._owe(callback, await self._named(callback.partitions))
        while (report := self.membership.take_report()) is not None:
            self._queue.put_error(report)
        if self.membership.error is not None:
            self._queue.notify()

    def _owe(self, callback: Callback, partitions: frozenset[TopicPartition]) -> None:
        listener = self._config.listener
        if listener is None:
            return
        method = {
            CallbackKind.REVOKED: listener.on_partitions_revoked,
            CallbackKind.ASSIGNED: listener.on_partitions_assigned,
            CallbackKind.LOST: listener.on_partitions_lost,
        }[callback.kind]

        def duty() -> None:
            try:
                method(partitions)
            finally:
                self._loop.call_soon_threadsafe(self._completed, callback)

        self._queue.put_callback(duty)

    def _completed(self, callback: Callback) -> None:
        self.membership.callback_completed(callback)
        self._heartbeats.wake()

    async def _named(self, partitions: Partitions) -> frozenset[TopicPartition]:
        """The partitions by topic name; a topic that cannot be looked up keeps its id."""
        if any(p.topic_id not in self._topic_names for p in partitions):
            request = MetadataRequest(topics=sorted(self.membership.topics))
            with suppress(KafkaError):
                answer = await call(self._connection.admin.Metadata, request, timeout=5.0)
                self._topic_names.update({topic.topic_id: topic.name for topic in answer.topics})
        return frozenset(
            TopicPartition(self._topic_names.get(p.topic_id, p.topic_id), p.partition) for p in partitions
        )


def _quietly(callback: Callable[[T], None], what: T) -> None:
    """A callback that only is told something cannot disturb."""
    try:
        callback(what)
    except Exception:
        log.exception("%s raised", getattr(callback, "__name__", "a callback"))


def _fatal(error: KafkaError) -> bool:
    """Whether opening the stream again cannot help. An unknown failure is one of the transport, as a rule."""
    return not error.retriable and error.code is not ErrorCode.UNKNOWN_SERVER_ERROR
