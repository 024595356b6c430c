"""Work on resources: what is decided about one is done in that order; different ones do not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Steps:
    """The steps that are under way, or wait for an earlier one of their resource."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Task[Any]] = {}

    def __contains__(self, resource: str) -> bool:
        return resource in self._last

    def add(self, resource: str, step: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a step once the resource's earlier steps are done."""
        task = asyncio.create_task(_after(self._last.get(resource), step))
        self._last[resource] = task
        task.add_done_callback(lambda done: self._forget(resource, done))
        return task

    async def settle(self) -> None:
        """Wait until no resource has a step to do."""
        while self._last:
            await asyncio.wait(list(self._last.values()))

    def _forget(self, resource: str, done: asyncio.Task[Any]) -> None:
        if self._last.get(resource) is done:
            del self._last[resource]


async def _after(before: asyncio.Task[Any] | None, step: Coroutine[Any, Any, T]) -> T:
    if before is not None:
        await asyncio.wait([before])
    return await step
