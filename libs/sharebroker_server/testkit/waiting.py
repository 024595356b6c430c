"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from threading import Event
from time import monotonic


async def eventually(condition: Callable[[], object], timeout: float = 10.0) -> None:
    """Return once `condition()`, or what awaiting it gives, is true.

    Raises AssertionError after `timeout` seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return
        if loop.time() > deadline:
            raise AssertionError(f"did not become true within {timeout} s: {condition}")
        await asyncio.sleep(0.005)


def until(condition: Callable[[], object], timeout: float = 10.0) -> None:
    """As `eventually`, for code without an event loop."""
    deadline = monotonic() + timeout
    pause = Event()
    while not condition():
        if monotonic() > deadline:
            raise AssertionError(f"did not become true within {timeout} s: {condition}")
        pause.wait(0.01)
