"""Startup, readiness and liveness checks of a broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

from sharebroker_server.telemetry.http import Reply

Check = Callable[[], Awaitable[str]]
"""Returns why the broker is not ready, or ""; must be faster than the time-out of probes."""

Missing = Callable[[], list[str]]
"""Returns the resources that this broker should own and does not."""

INCOMPLETE_GRACE: Final = 30.0
"""Seconds that a broker stays ready with missing resources, after it had all of them.

Without it, no broker would be ready while a dead broker still holds leases."""


class Health:
    """Health of a broker: the process updates it, HTTP requests read it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.starting = "the broker is starting"
        self._stopping = False
        self.checks: list[Check] = []
        self.missing: list[Missing] = []
        self._clock = clock
        self._complete_at: float | None = None

    def started(self) -> None:
        """Records that the broker serves."""
        self.starting = ""

    def stop(self) -> None:
        """Records that the broker is stopping: clients should connect elsewhere."""
        self._stopping = True

    async def is_started(self) -> str:
        """Returns why the broker does not serve yet, or ""."""
        return self.starting

    async def is_ready(self) -> str:
        """Returns why clients should not connect to this broker, or ""."""
        if self.starting:
            return self.starting
        if self._stopping:
            return "the broker is stopping"
        for check in self.checks:
            if reason := await check():
                return reason
        return self._incomplete()

    async def is_live(self) -> str:
        """Returns "": a response shows that the event loop runs."""
        return ""

    def _incomplete(self) -> str:
        missing = [name for list_missing in self.missing for name in list_missing()]
        now = self._clock()
        if not missing:
            self._complete_at = now
            return ""
        if self._complete_at is not None and now - self._complete_at < INCOMPLETE_GRACE:
            return ""
        return f"{len(missing)} resources of this broker are not available yet: {', '.join(missing[:3])}"


def page(check: Check) -> Callable[[], Awaitable[Reply]]:
    """Returns a page with 200 and `ok`, or 503 and the reason."""

    async def reply() -> Reply:
        reason = await check()
        return Reply(503, f"{reason}\n".encode()) if reason else Reply(200, b"ok\n")

    return reply
