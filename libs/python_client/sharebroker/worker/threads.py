"""Threads for handlers that block."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final

_Outcome = tuple[Any, BaseException | None]
_Job = tuple[Callable[[], Any], Callable[[_Outcome], None]]


class HandlerThreads:
    """Calls functions in threads, which are started on demand, at most `limit`.

    The threads are daemons: a handler that does not return does not keep the process alive. Those of
    `concurrent.futures` would.
    """

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = self._busy = 0

    async def call(self, function: Callable[[], Any]) -> Any:
        """Calls `function` in a thread, with the context of this task; returns its result.

        SystemExit and the like become a RuntimeError. A cancelled call leaves the function running and
        ignores its outcome.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[_Outcome] = loop.create_future()

        def finish(value: _Outcome) -> None:
            self._busy -= 1
            if not outcome.done():
                outcome.set_result(value)

        def report(value: _Outcome) -> None:
            with suppress(RuntimeError):  # the loop is closed: no task waits
                loop.call_soon_threadsafe(finish, value)

        context = contextvars.copy_context()
        self._busy += 1
        if self._busy > self._threads < self._limit:
            self._threads += 1
            threading.Thread(target=self._run, name=f"handler-{self._threads}", daemon=True).start()
        self._jobs.put((lambda: context.run(function), report))
        result, error = await outcome
        if error is not None and not isinstance(error, Exception):  # SystemExit would end the event loop
            raise RuntimeError(f"The handler raised {type(error).__name__}.") from error
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Ends the idle threads now and the busy ones once their functions return."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, report = job
            outcome: _Outcome
            try:
                outcome = function(), None
            except BaseException as error:
                outcome = None, error
            report(outcome)
            del job, function, report, outcome  # no record is kept while the thread is idle
