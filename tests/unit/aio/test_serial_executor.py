"""SerialExecutor: order per key, concurrency across keys."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_server.aio.serial_executor import SerialExecutor


async def test_work_of_one_key_runs_in_order_and_keys_run_concurrently() -> None:
    executor, gate, events = SerialExecutor(), asyncio.Event(), list[str]()

    async def work(name: str, wait: bool = False) -> str:
        if wait:
            await gate.wait()
        events.append(name)
        return name

    first = executor.submit("a", work("a1", wait=True))
    second = executor.submit("a", work("a2"))
    assert await executor.submit("b", work("b1")) == "b1"
    assert "a" in executor
    assert not second.done()
    gate.set()
    await executor.drain()
    assert (await first, await second, events) == ("a1", "a2", ["b1", "a1", "a2"])
    assert "a" not in executor


async def test_failed_work_does_not_stop_later_work() -> None:
    executor = SerialExecutor()

    async def fail() -> None:
        raise ValueError("failed")

    async def succeed() -> int:
        return 1

    failed = executor.submit("a", fail())
    assert await executor.submit("a", succeed()) == 1
    with pytest.raises(ValueError, match="failed"):
        await failed
