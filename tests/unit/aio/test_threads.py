from __future__ import annotations

import asyncio
import threading

import pytest

from sharebroker_server.aio.threads import run_in_daemon_thread


async def test_work_in_a_thread_returns_its_result() -> None:
    name, daemon = await run_in_daemon_thread(_here, "elsewhere")
    assert (name, daemon) == ("elsewhere", True)


async def test_the_future_raises_the_exception_of_the_work() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_in_daemon_thread(lambda: 1 // 0, "elsewhere")


async def test_a_cancelled_future_is_not_resolved() -> None:
    going_on, ended = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        going_on.wait(60)
        loop.call_soon_threadsafe(ended.set)

    outcome = run_in_daemon_thread(work, "elsewhere")
    outcome.cancel()
    going_on.set()
    await ended.wait()
    assert outcome.cancelled()


def _here() -> tuple[str, bool]:
    return threading.current_thread().name, threading.current_thread().daemon
