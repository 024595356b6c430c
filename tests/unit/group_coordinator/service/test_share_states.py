"""Work that survives the cancellation of its caller."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_server.group_coordinator.service.share_states import shielded


async def test_work_continues_after_its_caller_is_cancelled() -> None:
    done, release = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await release.wait()
        done.set()

    caller = asyncio.create_task(shielded(work()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    release.set()
    await asyncio.wait_for(done.wait(), 1)


async def test_result_and_error_reach_the_caller() -> None:
    async def fail() -> None:
        raise ValueError("on demand")

    assert await shielded(asyncio.sleep(0, "result")) == "result"
    with pytest.raises(ValueError, match="on demand"):
        await shielded(fail())
