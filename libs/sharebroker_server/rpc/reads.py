"""Reads of gRPC's messages that are not cancelled with their readers."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Awaitable, Generator
from functools import partial
from typing import Any, Final, TypeVar, cast

M = TypeVar("M")


@types.coroutine
def completed(read: Awaitable[M]) -> Generator[Any, None, M]:
    """Returns the result of a read of gRPC; the read completes even if its reader is cancelled.

    gRPC does not free a message that arrives for a cancelled read. A task for each read would cost more.
    """
    steps: Any = read.__await__()
    while True:
        try:
            awaited: asyncio.Future[None] = steps.send(None)
        except StopIteration as end:
            return cast("M", end.value)
        awaited._asyncio_future_blocking = False  # as a task does with the future that it awaits
        arrived = awaited.get_loop().create_future()  # a cancelled task cancels the future that it awaits
        awaited.add_done_callback(partial(_wake, arrived))
        try:
            yield from arrived
        except asyncio.CancelledError:
            task = asyncio.ensure_future(_complete(steps, awaited))
            _abandoned.add(task)
            task.add_done_callback(_abandoned.discard)
            raise


_abandoned: Final[set[asyncio.Future[None]]] = set()
"""Reads whose readers were cancelled, until their calls end; the event loop does not keep them alive."""


def _wake(arrived: asyncio.Future[None], _: object) -> None:
    if not arrived.done():
        arrived.set_result(None)


@types.coroutine
def _complete(steps: Any, awaited: asyncio.Future[None]) -> Generator[Any, None, None]:
    with contextlib.suppress(Exception):  # the end of the read, or the error of an aborted call
        while True:
            yield from awaited
            awaited = steps.send(None)
