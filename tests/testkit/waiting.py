"""Waits for a condition instead of a fixed time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from threading import Event
from time import monotonic


async def eventually(condition: Callable[[], object], timeout: float = 10.0) -> None:
    """Waits until `condition()`, or the result of awaiting it, is true.

    Raises AssertionError after `timeout` seconds.
    """
    pause = max(0.005, timeout / 10_000)  # a long wait is usually one in simulated time
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        result = condition()
        if inspect.isawaitable(result):
            result = await result
        if result:
            return
        if loop.time() > deadline:
            raise AssertionError(f"did not become true within {timeout} s: {condition}")
        await asyncio.sleep(pause)


def until(condition: Callable[[], object], timeout: float = 10.0) -> None:
    """Like `eventually`, without an event loop."""
    deadline = monotonic() + timeout
    pause = Event()
    while not condition():
        if monotonic() > deadline:
            raise AssertionError(f"did not become true within {timeout} s: {condition}")
        pause.wait(0.01)


class Turns:
    """Counts the turns of other tasks while it is entered."""

    def __init__(self) -> None:
        self.passed = -1
        self._handle: asyncio.Handle | None = None

    def __enter__(self) -> Turns:
        self._pass()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._handle is not None
        self._handle.cancel()

    def _pass(self) -> None:
        self.passed += 1
        self._handle = asyncio.get_running_loop().call_soon(self._pass)
