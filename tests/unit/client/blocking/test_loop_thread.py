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
