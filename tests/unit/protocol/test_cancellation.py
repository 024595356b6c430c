"""Tasks end even if they swallow a cancellation."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol import cancellation
from sharebroker_protocol.cancellation import end


async def test_cancelling_no_tasks_does_not_raise() -> None:
    await end([])


async def test_task_that_swallows_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cancellation, "_AGAIN", 0.001)
    swallowed = 0

    async def retry_indefinitely() -> None:
        nonlocal swallowed
        while swallowed < 2:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
        await asyncio.sleep(60)

    task = asyncio.create_task(retry_indefinitely())
    await asyncio.sleep(0)
    await end([task])
    assert task.cancelled()
    assert swallowed == 2


async def test_exceptions_of_cancelled_tasks_are_discarded() -> None:
    async def fails() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("at the end")

    failing, quiet = asyncio.create_task(fails()), asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    await end([failing, quiet])
    assert failing.done()
    assert quiet.cancelled()
