"""The worker: receives records, calls the handler for each, and acknowledges by its outcome.

Theory of operation
-------------------

`run_async` has two phases. `_dispatch` starts a task for each record while a slot is free. After `stop`, a
fatal error or `idle_timeout`, `_finish` waits for the handlers that run and cancels those that exceed the
grace period. The consumer then leaves the group and returns the records that no handler received; those do
not count as a delivery.

A task has two phases as well. While it is in `_handling` it occupies a slot and may be cancelled. Afterwards
it waits until the server has confirmed the acknowledgement and runs the hooks.

The consumer renews the locks of all records in hand and logs lost ones. A lost lock does not interrupt the
handler: the hook `on_lock_lost` runs, and the server rejects the acknowledgement. A handler under a durable
lock begins once the lock is stored, so that its job does not run twice when the leader fails.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sharebroker.aio import Admin, ShareConsumer
from sharebroker.aio.signals import on_interrupt
from sharebroker.client_errors import WakeupError
from sharebroker.worker.config import (
    Handler,
    MaxFailuresError,
    Reject,
    Retry,
    WorkerConfig,
    describe_release,
    release_delay,
)
from sharebroker.worker.threads import HandlerThreads
from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.records.record import AcknowledgeType, Record

if TYPE_CHECKING:
    from sharebroker_protocol.address import Address

_CONFIRMATION_TIMEOUT: Final = 30.0
_MAX_UNCONFIRMED: Final = 100
_SHORTEST_IDLE_TIMEOUT: Final = 0.1
_log = logging.getLogger(__name__)


class _NotStartedError(Retry):
    """The lock was lost before the handler began."""

    def __init__(self) -> None:
        super().__init__(0.0, "the lock was lost before the handler began", blameless=True)


class Worker:
    """A member of a share group that calls a handler for each record.

        def resize(record):
            ...

        Worker("127.0.0.1:9090", "resizers", ["pictures"], resize).run()

    The record is accepted when the handler returns. It is rejected if the handler raises Reject, and released
    with a delay that grows with each delivery if it raises any other exception; Retry chooses the delay. The
    lock is renewed while the handler runs.

    A coroutine function runs in the worker's event loop, any other handler in a thread. A worker runs once.
    """

    def __init__(
        self,
        address: str | Address,
        group_id: str,
        topics: Iterable[str],
        handler: Handler,
        config: WorkerConfig | None = None,
    ) -> None:
        """Creates a worker; it connects when it runs. `address` is that of a ShareConsumer."""
        self._config = config or WorkerConfig()
        self._address, self._group_id = address, group_id
        self._join = partial(ShareConsumer, address, group_id, topics, self._config.for_consumer())
        self._handler = handler
        self._is_coroutine = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004 - the method of a callable object
        )
        self._threads = HandlerThreads(self._config.concurrency)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_requested = False
        self._wake_consumer: Callable[[], None] = lambda: None
        self._stopping = False
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._handling: set[asyncio.Task[None]] = set()
        self._active_at = self._retry_at = 0.0
        self._failures = 0
        self._too_many_failures: MaxFailuresError | None = None

    def run(self) -> None:
        """Runs until a signal or `stop` ends it, no record arrives for `idle_timeout`, or too many fail.

        Raises MaxFailuresError; KafkaError for errors that end the membership; IllegalStateError for a second
        run.
        """
        asyncio.run(self.run_async())

    async def run_async(self) -> None:
        """Does the same as `run` in the running event loop. Cancelling it skips the grace period."""
        if self._loop is not None:
            raise IllegalStateError("the worker has run before")
        self._loop = asyncio.get_running_loop()
        # Read after the loop is set: a `stop` in another thread that found no loop has set it before.
        self._stopping = self._stop_requested
        if self._config.dead_letter_topic is not None:
            async with Admin(self._address) as admin:
                await admin.enable_dead_letters(self._group_id, self._config.dead_letter_topic)
        async with self._join() as consumer:
            self._wake_consumer = consumer.wakeup
            grace: float | None = 0.0
            with self._signals():
                try:
                    with suppress(WakeupError):
                        await self._dispatch(consumer)
                    grace = self._config.graceful_shutdown_timeout
                finally:
                    self._stopping = True
                    await self._finish(grace)
        if self._too_many_failures is not None:
            raise self._too_many_failures

    def stop(self) -> None:
        """Stops receiving records and lets running handlers finish within the grace period.

        A second call ends the grace period. May be called from any thread, and before the worker runs.
        """
        self._stop_requested = True
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the worker has ended
                loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._stopping:
            self._cancel_handlers()
        self._stopping = True
        self._changed.set()
        self._wake_consumer()

    def _signals(self) -> AbstractContextManager[None]:
        return on_interrupt(self._stop) if self._config.handle_signals else nullcontext()

    # Receiving records

    async def _dispatch(self, consumer: ShareConsumer) -> None:
        """Starts a task for each record until the worker stops or is idle."""
        self._active_at = _now()
        records = aiter(consumer)
        while await self._wait_for_slot():
            try:
                record = await self._next(records)
            except TimeoutError:
                if self._tasks:
                    self._active_at = _now()
                elif _now() >= (self._idle_at() or 0.0):
                    return
                records = aiter(consumer)
            except KafkaError as error:
                if error.code is not ErrorCode.CORRUPT_MESSAGE:
                    raise
                _log.warning("%s", error.message)  # the consumer has rejected the batch
                records = aiter(consumer)
            else:
                self._active_at = _now()
                self._start(record, consumer.processing(record))

    async def _next(self, records: AsyncIterator[Record]) -> Record:
        """Waits for a record. Raises TimeoutError once the worker is idle."""
        idle_at = self._idle_at()
        if idle_at is None:
            return await anext(records)
        async with asyncio.timeout_at(idle_at):
            return await anext(records)

    async def _wait_for_slot(self) -> bool:
        """Waits until another record can be handled; returns False once the worker stops."""
        most = self._config.concurrency
        while not self._stopping:
            if len(self._handling) < most and len(self._tasks) < most + _MAX_UNCONFIRMED:
                return True
            self._changed.clear()
            await self._changed.wait()
        return False

    def _idle_at(self) -> float | None:
        """Returns the loop time at which the worker counts as idle; None for never."""
        if self._config.idle_timeout is None:
            return None
        return max(self._active_at, self._retry_at) + max(self._config.idle_timeout, _SHORTEST_IDLE_TIMEOUT)

    def _start(self, record: Record, processing: AbstractContextManager[None]) -> None:
        task = asyncio.get_running_loop().create_task(self._handle(record, processing))
        self._tasks.add(task)
        self._handling.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._handling.discard(task)
        self._active_at = _now()
        self._changed.set()
        if not task.cancelled() and (failure := task.exception()) is not None:
            _log.error("worker task failed", exc_info=failure)

    # One record

    async def _handle(self, record: Record, processing: AbstractContextManager[None]) -> None:
        task = asyncio.current_task()
        assert task is not None
        config = self._config
        if config.on_lock_lost is not None:
            record.watch_lock(partial(self._lock_lost, config.on_lock_lost, record))
        try:
            failure = await self._attempt(record, processing, task)
        finally:
            if record.acquisition.watchers is not None:
                record.watch_lock(None)
            self._handling.discard(task)
            self._changed.set()
        self._count(record, failure, stopped=task.cancelling() > 0)
        error = await _confirmed(record)
        if error is not None:
            _log.warning("%r: the acknowledgement is not confirmed: %s", record, error.message)
            if config.on_unconfirmed is not None:
                await self._run_hook(config.on_unconfirmed, record, error)
        elif failure is None:
            if config.on_success is not None:
                await self._run_hook(config.on_success, record)
        elif config.on_failure is not None:
            await self._run_hook(config.on_failure, record, failure)

    async def _attempt(
        self, record: Record, processing: AbstractContextManager[None], task: asyncio.Task[None]
    ) -> Exception | None:
        """Calls the handler and acknowledges the record; returns why it was not accepted."""
        outcome: Exception | None = None
        failure: Exception | None = None
        with suppress(Exception), processing:  # which marks the span of a record that failed
            try:
                if record.acquisition.durable:
                    await _confirm_lock(record)
                if self._config.on_start is not None:
                    await self._run_hook(self._config.on_start, record)
                await self._call(record)
            except asyncio.CancelledError as cancelled:
                stopped = task.cancelling() > 0  # otherwise the handler awaited something that was cancelled
                failure = (
                    Retry(0.0, "the worker stopped", blameless=True) if stopped else Retry(None, "cancelled")
                )
                failure.__cause__ = cancelled
            except Exception as error:
                failure = error
            try:
                outcome = self._acknowledge(record, failure)
            except Exception as error:
                outcome = error
                with suppress(Exception):  # otherwise its lock would be renewed until the worker ends
                    record.release()
            if outcome is not None:
                raise outcome
            if failure is not None and not task.cancelling():
                _log.warning("%r: the handler failed after it accepted the record", record, exc_info=failure)
        return outcome

    async def _call(self, record: Record) -> None:
        if self._is_coroutine:
            await self._handler(record)
            return
        result = await self._threads.call(partial(self._handler, record))
        if result is not None and inspect.isawaitable(result):
            await result

    def _acknowledge(self, record: Record, failure: Exception | None) -> Exception | None:
        """Acknowledges the record unless the handler did; returns why it was not accepted."""
        present = record.acknowledgement
        if present is not None and present.kind is not AcknowledgeType.RENEW:
            return _failure_of(present.kind, failure)
        if failure is None:
            record.accept()
        elif isinstance(failure, Reject):
            record.reject(failure.reason)
        else:
            retry = failure if isinstance(failure, Retry) else Retry()
            delay = self._config.delay(record.delivery_count) if retry.delay is None else retry.delay
            record.release(delay, blameless=retry.blameless, reason=retry.reason)
        return failure

    def _count(self, record: Record, failure: Exception | None, *, stopped: bool) -> None:
        """Logs a failure, counts consecutive ones, and stops the worker at their limit."""
        if failure is None or isinstance(failure, Reject):
            self._failures = 0
            return
        if not isinstance(failure, Retry):
            text = describe_release(record)
            _log.warning("%r: the handler failed; %s", record, text, exc_info=failure)
        if stopped or isinstance(failure, _NotStartedError):
            return
        self._retry_at = max(self._retry_at, _now() + release_delay(record))
        self._failures += 1
        if self._failures == self._config.max_failures and not self._stopping:
            self._too_many_failures = MaxFailuresError(self._failures)
            self._too_many_failures.__cause__ = failure
            self._stop()

    def _lock_lost(self, hook: Callable[..., Awaitable[Any] | Any], record: Record) -> None:
        running = asyncio.ensure_future(self._run_hook(hook, record))
        self._tasks.add(running)
        running.add_done_callback(self._ended)

    async def _run_hook(self, hook: Callable[..., Awaitable[Any] | Any], *arguments: object) -> None:
        """Calls a hook; logs its exception."""
        try:
            result = hook(*arguments)
            if inspect.isawaitable(result):
                await result
        except Exception:
            _log.exception("hook %s raised an exception", getattr(hook, "__name__", "unknown"))

    # Shutdown

    async def _finish(self, grace: float | None) -> None:
        """Waits for running handlers, cancels those that exceed the grace period, and confirms the rest."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=grace)
        self._cancel_handlers()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_CONFIRMATION_TIMEOUT)
        self._threads.close()

    def _cancel_handlers(self) -> None:
        for task in self._handling:
            if not task.cancelling():  # a second cancellation would interrupt what the first one started
                task.cancel()


def _failure_of(kind: AcknowledgeType, failure: Exception | None) -> Exception | None:
    """Returns the failure that an acknowledgement by the handler itself stands for."""
    if kind is AcknowledgeType.ACCEPT:
        return None
    rejected = kind is AcknowledgeType.REJECT
    if failure is not None and isinstance(failure, Reject) is rejected:
        return failure
    return Reject("rejected by the handler") if rejected else Retry(None, "released by the handler")


async def _confirm_lock(record: Record) -> None:
    """Waits until a durable lock is stored; raises _NotStartedError if it was lost before."""
    try:
        await record.renew()
    except KafkaError as error:
        raise _NotStartedError from error


async def _confirmed(record: Record) -> KafkaError | None:
    """Waits for the outcome of the acknowledgement; returns its error."""
    acknowledgement = record.acknowledgement
    if acknowledgement is None:
        return None
    if not acknowledgement.done:
        # `asyncio.timeout` costs more than the rest of a record's task.
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()
        resume = partial(_resume, waiting)
        acknowledgement.when_done(resume)
        timer = loop.call_later(_CONFIRMATION_TIMEOUT, resume)
        try:
            await waiting
        finally:
            timer.cancel()
    if acknowledgement.done:
        return acknowledgement.error
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The acknowledgement is not confirmed yet.")


def _resume(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _now() -> float:
    return asyncio.get_running_loop().time()
