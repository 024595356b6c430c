"""Cancels tasks reliably, including tasks that wait for gRPC calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

_AGAIN: Final = 1.0  # seconds


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels the tasks, waits until they have ended and discards their exceptions.

    One cancellation is not always enough. A grpc.aio call that fails while it is being cancelled raises its
    failure instead of CancelledError, and a task that retries after failures would then continue.
    """
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        ended, waiting = await asyncio.wait(waiting, timeout=_AGAIN)
        for task in ended:
            if not task.cancelled():
                task.exception()
