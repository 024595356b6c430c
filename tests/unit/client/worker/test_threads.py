"""Blocking handlers run in threads."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from sharebroker.worker.threads import HandlerThreads
from tests.testkit.waiting import eventually

_current: contextvars.ContextVar[str] = contextvars.ContextVar("_current")


def handler_threads() -> int:
    return sum(thread.name.startswith("handler-") for thread in threading.enumerate())


async def test_call_returns_result_and_raises_error() -> None:
    threads = HandlerThreads(1)
    assert await threads.call(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.call(lambda: 1 // 0)
    threads.close()
    await eventually(lambda: handler_threads() == 0)


async def test_exit_of_a_handler_is_a_failure() -> None:
    def handler() -> None:
        raise SystemExit(3)

    threads = HandlerThreads(1)
    with pytest.raises(RuntimeError, match="SystemExit"):
        await threads.call(handler)
    threads.close()
    await eventually(lambda: handler_threads() == 0)


async def test_idle_thread_is_used_again_and_the_limit_holds() -> None:
    threads = HandlerThreads(2)
    go = threading.Event()
    for _ in range(3):
        await threads.call(lambda: None)
    assert handler_threads() == 1
    calls = [asyncio.create_task(threads.call(go.wait)) for _ in range(2)]
    await eventually(lambda: handler_threads() == 2)
    go.set()
    assert await asyncio.gather(*calls) == [True, True]
    assert handler_threads() == 2
    threads.close()
    await eventually(lambda: handler_threads() == 0)


async def test_function_has_the_context_of_its_caller() -> None:
    threads = HandlerThreads(1)
    _current.set("mine")
    assert await threads.call(_current.get) == "mine"
    threads.close()
    await eventually(lambda: handler_threads() == 0)


async def test_cancelled_call_returns_while_its_function_runs() -> None:
    threads = HandlerThreads(1)
    go = threading.Event()
    call = asyncio.create_task(threads.call(go.wait))
    await eventually(lambda: handler_threads() == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    threads.close()
    assert handler_threads() == 1
    go.set()
    await eventually(lambda: handler_threads() == 0)
