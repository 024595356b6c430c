"""Work that blocks, in threads that a process does not wait for when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def aside(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """What `work` gives or raises: asyncio's own threads would hold a process up for as long as it takes."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            outcome: T | Exception = work()
        except Exception as error:  # whoever waits is told
            outcome = error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(_tell, ended, outcome)

    Thread(target=run, name=name, daemon=True).start()
    return ended


def _tell(ended: asyncio.Future[T], outcome: T | Exception) -> None:
    if ended.done():  # given up
        return
    if isinstance(outcome, Exception):
        ended.set_exception(outcome)
    else:
        ended.set_result(outcome)
