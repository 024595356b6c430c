"""The worker against a scripted gateway."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from sharebroker import (
    ConsumerConfig,
    ErrorCode,
    IllegalStateError,
    KafkaError,
    MaxFailuresError,
    Record,
    Reject,
    Retry,
    Worker,
    WorkerConfig,
)
from sharebroker.worker import runner
from sharebroker.worker.config import Handler
from sharebroker_protocol.records.record import AcknowledgeType
from tests.testkit.waiting import eventually
from tests.unit.client.batches import batch
from tests.unit.client.consuming import stream_of, values
from tests.unit.client.fake_gateway import FakeGateway, Stream

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


class Hooks:
    """Records the hooks that ran."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def named(self, name: str) -> Callable[..., None]:
        return lambda record, *more: self.calls.append((name, record.offset, *more))

    def settings(self) -> dict[str, Any]:
        names = ("on_start", "on_success", "on_failure", "on_lock_lost", "on_unconfirmed")
        return {name: self.named(name) for name in names}

    def names(self) -> list[str]:
        return [name for name, *_ in self.calls]


def worker_of(gateway: FakeGateway, handler: Handler, **settings: Any) -> Worker:
    consumer = ConsumerConfig(retry_backoff_ms=10, retry_backoff_max_ms=20)
    config = WorkerConfig(consumer=consumer, handle_signals=False, **settings)
    return Worker(gateway.address, "group", ["flights"], handler, config)


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """Runs the worker in a task, and stops it in the end."""
    task = asyncio.create_task(worker.run_async())
    try:
        yield task
    finally:
        worker.stop()
        async with asyncio.timeout(20):
            await asyncio.wait([task])


def deliver(stream: Stream, *offsets: int, count: int = 1) -> None:
    for offset in offsets:
        stream.deliver(batch(offset, values(1)), offset, offset, token=offset + 1, count=count)


def acknowledged(stream: Stream) -> list[tuple[int, AcknowledgeType, int]]:
    """Offset, acknowledge type and delay of each acknowledgement, without renewals."""
    return [
        (ack.first_offset, AcknowledgeType(ack.type), ack.delay_ms)
        for ack in stream.all_acknowledgements
        if ack.type != AcknowledgeType.RENEW and not ack.unseen
    ]


async def acknowledgements(stream: Stream, count: int) -> list[tuple[int, AcknowledgeType, int]]:
    await eventually(lambda: len(acknowledged(stream)) >= count)
    return acknowledged(stream)


def failing(error: Exception) -> Handler:
    async def handler(record: Record) -> None:
        raise error

    return handler


def _noting(handled: list[int]) -> Handler:
    async def handler(record: Record) -> None:
        handled.append(record.offset)

    return handler


async def succeeding(record: Record) -> None:
    pass


async def test_the_reason_of_a_retry_is_sent(gateway: FakeGateway) -> None:
    async with running(worker_of(gateway, failing(Retry(2, "é" * 600)))):
        stream = await stream_of(gateway)
        deliver(stream, 3)
        assert await acknowledgements(stream, 1) == [(3, RELEASE, 2_000)]
        (sent,) = stream.all_acknowledgements
        assert (sent.reason, sent.blameless) == ("é" * 500, False)


@pytest.mark.parametrize(
    ("handler", "count", "expected"),
    [
        (succeeding, 1, (ACCEPT, 0)),
        (failing(Reject("no such account")), 1, (REJECT, 0)),
        (failing(ValueError("a defect")), 1, (RELEASE, 1_000)),
        (failing(ValueError("a defect")), 4, (RELEASE, 8_000)),
        (failing(Retry()), 2, (RELEASE, 2_000)),
        (failing(Retry(7.5)), 2, (RELEASE, 7_500)),
        (failing(Retry(0)), 2, (RELEASE, 0)),
        (failing(asyncio.CancelledError()), 1, (RELEASE, 1_000)),  # type: ignore[arg-type]
    ],
)
async def test_outcome_of_the_handler_decides(
    gateway: FakeGateway, handler: Handler, count: int, expected: tuple[AcknowledgeType, int]
) -> None:
    async with running(worker_of(gateway, handler)):
        stream = await stream_of(gateway)
        deliver(stream, 3, count=count)
        assert await acknowledgements(stream, 1) == [(3, *expected)]


@pytest.mark.parametrize("blameless", [False, True])
async def test_a_blameless_retry_is_a_blameless_release(gateway: FakeGateway, blameless: bool) -> None:
    async with running(worker_of(gateway, failing(Retry(3, blameless=blameless)))):
        stream = await stream_of(gateway)
        deliver(stream, 3, count=2)
        assert await acknowledgements(stream, 1) == [(3, RELEASE, 3_000)]
        assert [ack.blameless for ack in stream.all_acknowledgements if ack.type == RELEASE] == [blameless]


async def test_reason_of_a_reject_is_sent(gateway: FakeGateway) -> None:
    async with running(worker_of(gateway, failing(Reject("no such account")))):
        stream = await stream_of(gateway)
        deliver(stream, 0)
        await acknowledgements(stream, 1)
        assert stream.all_acknowledgements[0].reason == "no such account"


@pytest.mark.parametrize(
    ("reason", "sent"),
    [
        (ValueError("no such account"), "no such account"),
        ("caf\udce9", "caf?"),  # as in the name of a file that is not UTF-8
        ("x" * 5_000_000, "x" * 500),
    ],
    ids=["exception", "surrogate", "long"],
)
async def test_any_reason_of_a_reject_can_be_sent(gateway: FakeGateway, reason: Any, sent: str) -> None:
    async with running(worker_of(gateway, failing(Reject(reason)))):
        stream = await stream_of(gateway)
        deliver(stream, 0)
        assert await acknowledgements(stream, 1) == [(0, REJECT, 0)]
        assert stream.all_acknowledgements[0].reason == sent


async def test_acknowledgement_by_the_handler_counts(gateway: FakeGateway) -> None:
    hooks = Hooks()

    async def handler(record: Record) -> None:
        match record.offset:
            case 0:
                record.release(5)
            case 1:
                record.reject("bad")
            case _:
                record.accept()
                raise ValueError("after the acknowledgement")

    async with running(worker_of(gateway, handler, **hooks.settings())):
        stream = await stream_of(gateway)
        deliver(stream, 0, 1, 2)
        assert await acknowledgements(stream, 3) == [(0, RELEASE, 5_000), (1, REJECT, 0), (2, ACCEPT, 0)]
        await eventually(lambda: len(hooks.calls) == 6)
    outcomes = [type(more[0]).__name__ if more else name for name, _, *more in hooks.calls]
    assert [outcome for outcome in outcomes if outcome != "on_start"] == ["Retry", "Reject", "on_success"]


async def test_hooks_run_around_the_handler(gateway: FakeGateway) -> None:
    hooks = Hooks()
    error = ValueError("odd")

    def handler(record: Record) -> None:
        hooks.calls.append(("handler", record.offset))
        if record.offset == 1:
            raise error

    async with running(worker_of(gateway, handler, **hooks.settings())):
        stream = await stream_of(gateway)
        deliver(stream, 0, 1)
        await eventually(lambda: len(hooks.calls) == 6)
    assert [call for call in hooks.calls if call[1] == 0] == [
        ("on_start", 0),
        ("handler", 0),
        ("on_success", 0),
    ]
    assert [call for call in hooks.calls if call[1] == 1] == [
        ("on_start", 1),
        ("handler", 1),
        ("on_failure", 1, error),
    ]


async def test_failing_hook_is_logged_and_changes_nothing(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async def hook(record: Record) -> None:
        raise ValueError("in the hook")

    async with running(worker_of(gateway, succeeding, on_start=hook)):
        stream = await stream_of(gateway)
        deliver(stream, 0)
        assert await acknowledgements(stream, 1) == [(0, ACCEPT, 0)]
    assert [entry.message for entry in caplog.records] == ["hook hook raised an exception"]


@pytest.mark.parametrize("kind", ["coroutine", "thread", "callable object", "returns an awaitable"])
async def test_every_kind_of_handler_runs(gateway: FakeGateway, kind: str) -> None:
    threads: list[threading.Thread] = []

    async def coroutine(record: Record) -> None:
        threads.append(threading.current_thread())

    def function(record: Record) -> None:
        threads.append(threading.current_thread())

    def returns_an_awaitable(record: Record) -> Any:
        return coroutine(record)

    class HandlerObject:
        async def __call__(self, record: Record) -> None:
            await coroutine(record)

    handlers: dict[str, Handler] = {
        "coroutine": coroutine,
        "thread": function,
        "callable object": HandlerObject(),
        "returns an awaitable": returns_an_awaitable,
    }
    async with running(worker_of(gateway, handlers[kind])):
        stream = await stream_of(gateway)
        deliver(stream, 0)
        assert await acknowledgements(stream, 1) == [(0, ACCEPT, 0)]
    (thread,) = threads
    assert (thread is threading.main_thread()) is (kind != "thread")


async def test_at_most_concurrency_handlers_run(gateway: FakeGateway) -> None:
    go = asyncio.Event()
    started: list[int] = []

    async def handler(record: Record) -> None:
        started.append(record.offset)
        await go.wait()

    async with running(worker_of(gateway, handler, concurrency=2)):
        stream = await stream_of(gateway)
        deliver(stream, 0, 1, 2)
        await eventually(lambda: len(started) == 2)
        assert stream.credit <= 4, "the worker acquires no more than it handles soon"
        assert acknowledged(stream) == []
        go.set()
        assert len(await acknowledgements(stream, 3)) == 3


async def test_locks_are_renewed_while_the_handler_runs(gateway: FakeGateway) -> None:
    go = threading.Event()

    def handler(record: Record) -> None:
        assert go.wait(20)

    async with running(worker_of(gateway, handler)):
        stream = await stream_of(gateway)
        deliver(stream, 0)
        await eventually(
            lambda: sum(ack.type == AcknowledgeType.RENEW for ack in stream.all_acknowledgements) >= 2
        )
        go.set()
        assert await acknowledgements(stream, 1) == [(0, ACCEPT, 0)]


async def test_handler_begins_once_its_durable_lock_is_stored(gateway: FakeGateway) -> None:
    handled: list[int] = []
    gateway.auto_answer = False
    consumer = ConsumerConfig(lock_ms=60_000)
    worker = Worker(gateway.address, "group", ["flights"], _noting(handled), WorkerConfig(consumer=consumer))
    async with running(worker):
        stream = await stream_of(gateway)
        deliver(stream, 0)
        await eventually(lambda: len(stream.all_acknowledgements) == 2)
        assert handled == []
        gateway.auto_answer = True
        stream.answer()
        await eventually(lambda: handled == [0])


async def test_handler_does_not_begin_if_its_durable_lock_is_lost(gateway: FakeGateway) -> None:
    hooks, handled = Hooks(), list[int]()
    gateway.auto_answer = False
    config = WorkerConfig(
        consumer=ConsumerConfig(lock_ms=60_000), max_failures=1, handle_signals=False, **hooks.settings()
    )
    async with running(Worker(gateway.address, "group", ["flights"], _noting(handled), config)) as task:
        stream = await stream_of(gateway)
        deliver(stream, 0)
        await eventually(lambda: len(stream.all_acknowledgements) == 2)
        stream.answer(ErrorCode.INVALID_RECORD_STATE)
        assert await acknowledgements(stream, 1) == [(0, RELEASE, 0)]
        stream.answer(ErrorCode.INVALID_RECORD_STATE)
        await eventually(lambda: hooks.names() == ["on_unconfirmed"])
        assert not task.done()
    assert handled == []


@pytest.mark.parametrize("cause", ["lock timed out", "stream ended"])
async def test_lost_lock_is_logged_once_and_calls_the_hook(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture, cause: str
) -> None:
    hooks = Hooks()
    go = asyncio.Event()

    async def handler(record: Record) -> None:
        await go.wait()

    async with running(worker_of(gateway, handler, **hooks.settings())):
        stream = await stream_of(gateway)
        deliver(stream, 0)
        await eventually(lambda: hooks.names() == ["on_start"])
        gateway.auto_answer = False
        if cause == "lock timed out":
            stream.lose(0, 0)
            stream.lose(0, 0)
        else:
            stream.end(grpc.StatusCode.UNAVAILABLE)
        await eventually(lambda: hooks.names() == ["on_start", "on_lock_lost"])
        go.set()
        if cause == "lock timed out":
            await acknowledgements(stream, 1)
            stream.answer(ErrorCode.INVALID_RECORD_STATE)
        await eventually(lambda: hooks.names() == ["on_start", "on_lock_lost", "on_unconfirmed"])
    assert sum("lock on flights-0@0 (delivery 1) was lost" in entry.message for entry in caplog.records) == 1


async def test_missing_confirmation_is_reported(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_CONFIRMATION_TIMEOUT", 0.01)
    hooks = Hooks()
    gateway.auto_answer = False
    async with running(worker_of(gateway, succeeding, **hooks.settings())):
        stream = await stream_of(gateway)
        deliver(stream, 0)
        await eventually(lambda: hooks.names() == ["on_start", "on_unconfirmed"])
        stream.answer()
    assert hooks.calls[1][2].code is ErrorCode.REQUEST_TIMED_OUT


async def test_stop_lets_running_handlers_finish(gateway: FakeGateway) -> None:
    go = asyncio.Event()
    started: list[int] = []

    async def handler(record: Record) -> None:
        started.append(record.offset)
        await go.wait()

    worker = worker_of(gateway, handler, graceful_shutdown_timeout=None)
    async with running(worker) as task:
        stream = await stream_of(gateway)
        deliver(stream, 0, 1)
        await eventually(lambda: started == [0])
        worker.stop()
        go.set()
        await asyncio.wait_for(task, 20)
    assert acknowledged(stream) == [(0, ACCEPT, 0)]
    assert started == [0]


@pytest.mark.parametrize("ends_by", ["grace period", "second stop", "cancellation"])
@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_handler_beyond_the_grace_period_is_released(
    gateway: FakeGateway, ends_by: str, kind: str
) -> None:
    hooks = Hooks()
    go = threading.Event()

    async def coroutine(record: Record) -> None:
        await asyncio.Event().wait()

    def function(record: Record) -> None:
        go.wait(20)

    grace = 0.05 if ends_by == "grace period" else None
    handler = coroutine if kind == "coroutine" else function
    worker = worker_of(gateway, handler, graceful_shutdown_timeout=grace, max_failures=1, **hooks.settings())
    async with running(worker) as task:
        stream = await stream_of(gateway)
        deliver(stream, 0)
        await eventually(lambda: hooks.names() == ["on_start"])
        if ends_by == "cancellation":
            task.cancel()
            await asyncio.wait([task], timeout=20)
            assert task.cancelled()
        else:
            worker.stop()
            if ends_by == "second stop":
                worker.stop()
            await asyncio.wait_for(task, 20)  # and no MaxFailuresError: the handler did not fail
    go.set()
    assert acknowledged(stream) == [(0, RELEASE, 0)]
    assert [ack.blameless for ack in stream.all_acknowledgements if ack.type == RELEASE] == [True]
    assert hooks.names() == ["on_start", "on_failure"]


async def test_a_handler_is_cancelled_once(gateway: FakeGateway) -> None:
    steps: list[str] = []

    async def handler(record: Record) -> None:
        steps.append("started")
        try:
            await asyncio.Event().wait()
        finally:  # as `sharebroker work`, which gives its command time to end
            steps.append("cancelled")
            await asyncio.sleep(0.3)
            steps.append("ended")

    worker = worker_of(gateway, handler, graceful_shutdown_timeout=0.05)
    async with running(worker) as task:
        stream = await stream_of(gateway)
        deliver(stream, 0)
        await eventually(lambda: steps == ["started"])
        worker.stop()
        await eventually(lambda: "cancelled" in steps)
        worker.stop()
        await asyncio.wait_for(task, 20)
    assert steps == ["started", "cancelled", "ended"]
    assert acknowledged(stream) == [(0, RELEASE, 0)]
    assert [ack.blameless for ack in stream.all_acknowledgements if ack.type == RELEASE] == [True]


async def test_consecutive_failures_stop_the_worker(gateway: FakeGateway) -> None:
    async def handler(record: Record) -> None:
        if record.offset == 2:
            raise Reject
        if record.offset != 1:
            raise ValueError(f"failure {record.offset}")

    worker = worker_of(gateway, handler, max_failures=2)
    async with running(worker) as task:
        stream = await stream_of(gateway)
        deliver(stream, 0, 1, 2, 3, 4, 5)
        with pytest.raises(MaxFailuresError, match="after 2 consecutive failures") as caught:
            await asyncio.wait_for(task, 20)
    assert repr(caught.value.__cause__) == "ValueError('failure 4')"
    kinds = [kind for _, kind, _ in acknowledged(stream)]
    assert kinds == [RELEASE, ACCEPT, REJECT, RELEASE, RELEASE]


async def test_success_after_the_last_failure_does_not_hide_it(gateway: FakeGateway) -> None:
    go = asyncio.Event()

    async def handler(record: Record) -> None:
        if record.offset != 0:
            raise Retry
        await go.wait()

    worker = worker_of(gateway, handler, concurrency=2, max_failures=2)
    async with running(worker) as task:
        stream = await stream_of(gateway)
        deliver(stream, 0, 1, 2)
        assert len(await acknowledgements(stream, 2)) == 2
        go.set()
        with pytest.raises(MaxFailuresError):
            await asyncio.wait_for(task, 20)
    assert acknowledged(stream)[-1] == (0, ACCEPT, 0)


async def test_idle_worker_waits_for_handlers_and_for_retries(gateway: FakeGateway) -> None:
    async def handler(record: Record) -> None:
        await asyncio.sleep(0.6)  # longer than the idle timeout
        if record.delivery_count == 1:
            raise Retry(0.2)

    worker = worker_of(gateway, handler, idle_timeout=0.5)
    started = asyncio.get_running_loop().time()
    task = asyncio.create_task(worker.run_async())
    stream = await stream_of(gateway)
    deliver(stream, 0)
    await asyncio.wait_for(task, 20)
    assert acknowledged(stream) == [(0, RELEASE, 200)]
    assert asyncio.get_running_loop().time() - started >= 1.3


async def test_corrupt_batch_does_not_stop_the_worker(gateway: FakeGateway) -> None:
    async with running(worker_of(gateway, succeeding)):
        stream = await stream_of(gateway)
        damaged = bytearray(batch(0, values(1)))
        damaged[-1] ^= 1
        stream.deliver(bytes(damaged), 0, 0)
        deliver(stream, 1)
        assert [kind for _, kind, _ in await acknowledgements(stream, 2)] == [REJECT, ACCEPT]


async def test_fatal_error_ends_the_run(gateway: FakeGateway) -> None:
    gateway.heartbeat_errors = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaError) as caught:
        await worker_of(gateway, succeeding).run_async()
    assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_failed_acknowledgement_is_a_failure_and_releases_the_record(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(record: Record) -> None:
        raise IllegalStateError("cannot accept")

    monkeypatch.setattr(Record, "accept", fail)
    hooks = Hooks()
    async with running(worker_of(gateway, succeeding, max_failures=1, **hooks.settings())) as task:
        stream = await stream_of(gateway)
        deliver(stream, 0)
        assert await acknowledgements(stream, 1) == [(0, RELEASE, 0)]
        with pytest.raises(MaxFailuresError) as stopped:
            await task
    assert isinstance(stopped.value.__cause__, IllegalStateError)
    assert hooks.names() == ["on_start", "on_failure"]


class SlowlyStopped(Worker):
    """A worker whose `stop` is interrupted in its thread after it read that there is no loop."""

    def __init__(self, *arguments: Any) -> None:
        self.interrupted, self.runs = threading.Event(), threading.Event()
        super().__init__(*arguments)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop | None:
        loop = self._found
        if threading.current_thread() is not threading.main_thread():
            self.interrupted.set()
            assert self.runs.wait(20)
        return loop

    @_loop.setter
    def _loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._found = loop


async def test_stop_in_another_thread_during_the_start_is_not_missed(gateway: FakeGateway) -> None:
    config = WorkerConfig(handle_signals=False)
    worker = SlowlyStopped(gateway.address, "group", ["flights"], succeeding, config)
    stopping = asyncio.create_task(asyncio.to_thread(worker.stop))
    await asyncio.to_thread(worker.interrupted.wait, 20)
    running, joined = asyncio.create_task(worker.run_async()), asyncio.create_task(stream_of(gateway))
    await asyncio.wait([running, joined], return_when=asyncio.FIRST_COMPLETED)
    worker.runs.set()
    await stopping
    async with asyncio.timeout(20):
        await running
    joined.cancel()


async def test_worker_runs_once(gateway: FakeGateway) -> None:
    worker = worker_of(gateway, succeeding)
    worker.stop()
    await worker.run_async()
    with pytest.raises(IllegalStateError):
        await worker.run_async()
    worker.stop()


async def test_failure_of_the_handler_is_logged_with_its_traceback(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(worker_of(gateway, failing(ValueError("odd")))):
        stream = await stream_of(gateway)
        deliver(stream, 0)
        await acknowledgements(stream, 1)
    (entry,) = [entry for entry in caplog.records if entry.levelno == logging.WARNING]
    assert "the handler failed; released, delay 1 s" in entry.message
    assert entry.exc_info is not None


async def test_failure_after_an_acceptance_is_logged(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    def accept_and_fail(record: Record) -> None:
        record.accept()
        raise ValueError("late")

    async with running(worker_of(gateway, accept_and_fail)):
        stream = await stream_of(gateway)
        deliver(stream, 0)
        await acknowledgements(stream, 1)
    (entry,) = [entry for entry in caplog.records if entry.levelno == logging.WARNING]
    assert "the handler failed after it accepted the record" in entry.message


def test_run_blocks_until_the_worker_stops() -> None:
    started = threading.Event()
    workers: list[Worker] = []

    async def gateway_thread(ready: threading.Event, end: threading.Event, address: list[str]) -> None:
        async with FakeGateway() as gateway:
            address.append(gateway.address)
            ready.set()
            stream = await stream_of(gateway)
            deliver(stream, 0)
            await asyncio.to_thread(end.wait, 20)

    ready, end, address = threading.Event(), threading.Event(), list[str]()
    serving = threading.Thread(target=lambda: asyncio.run(gateway_thread(ready, end, address)))
    serving.start()
    assert ready.wait(20)

    def handler(record: Record) -> None:
        started.set()
        workers[0].stop()

    workers.append(Worker(address[0], "group", ["flights"], handler))
    workers[0].run()
    assert started.is_set()
    end.set()
    serving.join(20)


async def test_without_a_backoff_the_group_decides(gateway: FakeGateway) -> None:
    async with running(worker_of(gateway, failing(ValueError("a defect")), backoff=None)):
        stream = await stream_of(gateway)
        deliver(stream, 3)
        assert await acknowledgements(stream, 1) == [(3, RELEASE, 0)]
        (ack,) = [ack for ack in stream.all_acknowledgements if ack.type == RELEASE]
        assert (ack.HasField("delay_ms"), ack.blameless) == (False, False)


@pytest.mark.parametrize("existing", [[], ["dlq.group"]])
async def test_a_worker_gives_its_group_a_dead_letter_topic(
    gateway: FakeGateway, existing: list[str]
) -> None:
    gateway.created = existing.copy()
    async with running(worker_of(gateway, print, dead_letter_topic="dlq.group")):
        await eventually(lambda: gateway.heartbeats)
    assert gateway.created == ["dlq.group"]
    prefix = "errors.deadletterqueue."
    of_topic = {prefix + "group.enable": "true"} if existing else {}
    assert gateway.configs == of_topic | {
        prefix + "topic.name": "dlq.group",
        prefix + "copy.record.enable": "true",
    }


@pytest.mark.parametrize("readable", [True, False])
async def test_a_worker_refuses_a_dead_letter_topic_without_the_prefix(
    gateway: FakeGateway, readable: bool
) -> None:
    """Without the right to read the brokers' configs the name is not checked."""
    if readable:
        with pytest.raises(KafkaError, match=r"must begin with 'dlq\.'"):
            await worker_of(gateway, print, dead_letter_topic="letters").run_async()
        assert (gateway.created, gateway.heartbeats) == ([], [])
        return
    gateway.describe_error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    async with running(worker_of(gateway, print, dead_letter_topic="letters")):
        await eventually(lambda: gateway.heartbeats)
    assert gateway.created == ["letters"]


async def test_a_worker_without_rights_to_the_topic_does_not_join(gateway: FakeGateway) -> None:
    gateway.config_errors = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaError) as refused:
        await worker_of(gateway, print, dead_letter_topic="dlq.group").run_async()
    assert refused.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert gateway.heartbeats == []
