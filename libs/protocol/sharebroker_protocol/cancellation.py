"""Ending tasks, those that wait for gRPC too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

_AGAIN: Final = 1.0  # seconds


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks until they have ended; what they raise is nobody's news any more.

    Once is not always enough: a call of grpc.aio that fails while it is cancelled raises its failure, and
    who tries again after failures would go on for ever.
    """
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        ended, waiting = await asyncio.wait(waiting, timeout=_AGAIN)
        for task in ended:
            if not task.cancelled():
                task.exception()
