"""Blocking work in threads that the process does not wait for at shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def run_in_daemon_thread(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Returns a future of the result of `work`.

    asyncio's own threads would delay the shutdown of the process.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            outcome: T | Exception = work()
        except Exception as error:  # raised by the future
            outcome = error
        with suppress(RuntimeError):  # the loop closed meanwhile
            loop.call_soon_threadsafe(_resolve, result, outcome)

    Thread(target=run, name=name, daemon=True).start()
    return result


def _resolve(result: asyncio.Future[T], outcome: T | Exception) -> None:
    if result.done():  # cancelled
        return
    if isinstance(outcome, Exception):
        result.set_exception(outcome)
    else:
        result.set_result(outcome)
