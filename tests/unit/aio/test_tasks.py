"""Tasks: exceptions are reported, and stop cancels the rest."""

from __future__ import annotations

import asyncio

from sharebroker_server.aio.tasks import Tasks
from tests.testkit.waiting import eventually


async def test_exceptions_reach_the_owner_and_stop_cancels() -> None:
    errors: list[BaseException] = []
    tasks = Tasks(errors.append)

    async def fail() -> None:
        raise ValueError("failed")

    async def wait() -> None:
        await asyncio.Event().wait()

    waiting = tasks.spawn(wait())
    tasks.spawn(fail())
    await eventually(lambda: errors)
    assert [str(error) for error in errors] == ["failed"]
    await tasks.stop()
    assert waiting.cancelled()
    assert len(errors) == 1
