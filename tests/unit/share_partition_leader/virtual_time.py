"""An event loop whose waits take no time: when nothing can run, the clock jumps to the next timer."""

from __future__ import annotations

import asyncio
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """For code without sockets or threads. `time()` can replace the wall clock."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual = 1_700_000_000.0
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._virtual

    def _run_once(self) -> None:
        loop: Any = self
        due = [timer._when for timer in loop._scheduled if not timer._cancelled]
        if not loop._ready and due:
            self._virtual = max(self._virtual, min(due))
        base: Any = super()
        base._run_once()


def now() -> float:
    """Replaces `sharebroker_protocol.clock.now`."""
    return asyncio.get_running_loop().time()


async def settle(turns: int = 50) -> None:
    """Runs every ready callback without advancing the clock."""
    for _ in range(turns):
        await asyncio.sleep(0)
