"""Tasks with the lifetime of their owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sharebroker_protocol.cancellation import end


class Tasks:
    """Starts tasks and cancels them together; `failed` receives the exception of a task."""

    __slots__ = ("_failed", "_running")

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts `work` as a task."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    async def stop(self) -> None:
        """Cancels all tasks and waits for them."""
        await end(self._running)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
