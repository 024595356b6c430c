"""Renders metrics as text. One rendering runs at a time, and concurrent scrapes share it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from sharebroker_server.telemetry.metrics import Family, Metrics, counter, lines

_log = structlog.get_logger()

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
CACHE_SECONDS: Final = 1.0
"""Seconds for which later scrapes get the same rendering."""

REFRESH_TIMEOUT: Final = 2.0
"""Seconds that a scrape waits for metrics from other brokers; after that it serves the former values."""

_SLICE: Final = 0.002
"""Seconds of rendering before it yields to the event loop."""


class Exposition:
    """The text of all metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self.renderings = 0
        self._metrics = metrics
        self._text = b""
        self._until = 0.0
        self._rendering: asyncio.Task[bytes] | None = None
        self._refreshes: set[asyncio.Future[None]] = set()
        metrics.add(self._families)

    async def text(self) -> bytes:
        """Returns the cached rendering, the one in progress, or a new one."""
        if self._rendering is None:
            if asyncio.get_running_loop().time() < self._until:
                return self._text
            self._rendering = asyncio.create_task(self._render())
        # The end of one scrape must not cancel the rendering of the others.
        return await asyncio.shield(self._rendering)

    async def close(self) -> None:
        """Cancels the rendering and the refreshes."""
        tasks = [task for task in (self._rendering, *self._refreshes) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _families(self) -> Iterable[Family]:
        yield counter(
            "sharebroker_metrics_renderings_total",
            "Renderings of the metrics; scrapes within one second share one.",
            [((), self.renderings)],
        )

    async def _render(self) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            await self.refresh()
            self.renderings += 1
            parts: list[str] = []
            turn_ends = loop.time() + _SLICE
            for family in self._metrics.families():
                for line in lines(family):
                    parts.append(line)
                    if loop.time() > turn_ends:
                        await asyncio.sleep(0)
                        turn_ends = loop.time() + _SLICE
            self._text = "".join(parts).encode()
            self._until = loop.time() + CACHE_SECONDS
            return self._text
        finally:
            self._rendering = None

    async def refresh(self) -> None:
        """Runs the refreshes of metrics from other brokers, for at most REFRESH_TIMEOUT."""
        if not self._refreshes:
            for refresh in self._metrics.refreshes:
                task = asyncio.ensure_future(refresh())
                self._refreshes.add(task)
                task.add_done_callback(self._refreshed)
        if self._refreshes:
            await asyncio.wait(self._refreshes, timeout=REFRESH_TIMEOUT)

    def _refreshed(self, task: asyncio.Future[None]) -> None:
        self._refreshes.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("metrics refresh failed", error=repr(error))
