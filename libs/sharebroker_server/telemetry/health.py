"""Three questions about a process: does it serve, may clients be sent to it, does it still turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

from sharebroker_server.telemetry.http import Reply

Check = Callable[[], Awaitable[str]]
"""Why the process is not ready; "" where nothing is against it. Must not take longer than a probe waits."""

Missing = Callable[[], list[str]]
"""What this process should own and does not."""

PATIENCE: Final = 30.0
"""Seconds in which what should be ours has to come, once all was here.

Where it counted at once nobody would be ready while a process that died still has its leases."""


class Health:
    """Told by its owner how far the process is; asked over HTTP."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.starting = "it has just been started"
        self._stopping = False
        self.checks: list[Check] = []
        self.missing: list[Missing] = []
        self._clock = clock
        self._whole_at: float | None = None

    def started(self) -> None:
        """It serves from here on."""
        self.starting = ""

    def stop(self) -> None:
        """No clients should be sent here any more."""
        self._stopping = True

    async def is_started(self) -> str:
        """Why it does not serve yet, or ""."""
        return self.starting

    async def is_ready(self) -> str:
        """Why no clients should be sent here, or ""."""
        if self.starting:
            return self.starting
        if self._stopping:
            return "it is being stopped"
        for check in self.checks:
            if reason := await check():
                return reason
        return self._incomplete()

    async def is_live(self) -> str:
        """Whoever gets an answer has it: the event loop turns."""
        return ""

    def _incomplete(self) -> str:
        missing = [name for some in self.missing for name in some()]
        now = self._clock()
        if not missing:
            self._whole_at = now
            return ""
        if self._whole_at is not None and now - self._whole_at < PATIENCE:
            return ""
        return f"{len(missing)} of what it should own it does not have yet: {', '.join(missing[:3])}"


def page(question: Check) -> Callable[[], Awaitable[Reply]]:
    """200 and `ok`, or 503 and why not."""

    async def answer() -> Reply:
        reason = await question()
        return Reply(503, f"{reason}\n".encode()) if reason else Reply(200, b"ok\n")

    return answer
