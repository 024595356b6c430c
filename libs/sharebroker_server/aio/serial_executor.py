"""Runs coroutines one after another per key; different keys run concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class SerialExecutor:
    """Executes the work of each key in the order of `submit`.

    `key in executor` is true while work is pending.
    """

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Task[Any]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._last

    def submit(self, key: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs `work` after the earlier work of its key, whether that succeeds or fails."""
        task = asyncio.create_task(_run_after(self._last.get(key), work))
        self._last[key] = task
        task.add_done_callback(lambda done: self._remove(key, done))
        return task

    async def drain(self) -> None:
        """Waits until no key has pending work."""
        while self._last:
            await asyncio.wait(list(self._last.values()))

    def _remove(self, key: str, done: asyncio.Task[Any]) -> None:
        if self._last.get(key) is done:
            del self._last[key]


async def _run_after(earlier: asyncio.Task[Any] | None, work: Coroutine[Any, Any, T]) -> T:
    if earlier is not None:
        await asyncio.wait([earlier])
    return await work
