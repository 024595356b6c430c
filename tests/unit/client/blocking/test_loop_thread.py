"""Coroutines on a thread of their own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sharebroker.blocking.loop_thread import BlockingClient, LoopThread
from sharebroker_protocol.errors import IllegalStateError


def raise_error() -> None:
    raise ValueError("no")


async def name() -> str:
    return threading.current_thread().name


def test_work_runs_on_the_thread() -> None:
    thread = LoopThread()
    assert thread.call(name()) == "sharebroker"
    assert thread.make(threading.current_thread).name == "sharebroker"
    thread.close()


def test_close_cancels_tasks_and_rejects_calls() -> None:
    thread = LoopThread()
    task = thread.make(lambda: asyncio.ensure_future(asyncio.sleep(60)))
    thread.close()
    assert task.cancelled()
    with pytest.raises(IllegalStateError, match="closed"):
        thread.call(name())
    thread.stop()


def test_failing_factory_ends_the_thread() -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="no"):
        BlockingClient(raise_error)
    assert threading.active_count() == before


def test_stopped_loop_serves_the_next_thread_only() -> None:
    first = LoopThread()
    loop = first.make(asyncio.get_running_loop)
    first.close()
    second = LoopThread()
    assert second.make(asyncio.get_running_loop) is loop
    with pytest.raises(IllegalStateError, match="closed"):
        first.call(name())
    first.stop()
    assert second.call(name()) == "sharebroker"
    second.close()


def test_late_callback_of_a_stopped_loop_is_accepted() -> None:
    thread = LoopThread()
    loop = thread.make(asyncio.get_running_loop)
    thread.close()
    called = threading.Event()
    loop.call_soon_threadsafe(called.set)
    following = LoopThread()
    assert following.call(name()) == "sharebroker"
    assert called.is_set()
    following.close()
