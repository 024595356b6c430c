"""Renders metrics as text, whoever and however many ask: one rendering at a time, kept for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from sharebroker_server.telemetry.metrics import Family, Metrics, counter, lines

_log = structlog.get_logger()

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
FRESH: Final = 1.0
"""Seconds for which a rendering serves those who ask after it."""

REFRESHED_WITHIN: Final = 2.0
"""Seconds that a scrape waits for numbers of other processes; those it has not are as they were."""

_SLICE: Final = 0.002
"""Seconds of rendering after which others have their turn in the event loop."""


class Exposition:
    """The text of all metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self.renderings = 0
        self._metrics = metrics
        self._text = b""
        self._until = 0.0
        self._under_way: asyncio.Task[bytes] | None = None
        self._refreshes: set[asyncio.Future[None]] = set()
        metrics.add(self._families)

    async def text(self) -> bytes:
        """What was rendered a moment ago, or is being rendered, else anew."""
        if self._under_way is None:
            if asyncio.get_running_loop().time() < self._until:
                return self._text
            self._under_way = asyncio.create_task(self._render())
        # Who goes away must not end it for the others.
        return await asyncio.shield(self._under_way)

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = [task for task in (self._under_way, *self._refreshes) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _families(self) -> Iterable[Family]:
        yield counter(
            "sharebroker_metrics_renderings_total",
            "How often this was made; who asks within a second gets what was made before.",
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
            self._until = loop.time() + FRESH
            return self._text
        finally:
            self._under_way = None

    async def refresh(self) -> None:
        """Have those asked who know more, for REFRESHED_WITHIN at most."""
        if not self._refreshes:
            for refresh in self._metrics.refreshes:
                task = asyncio.ensure_future(refresh())
                self._refreshes.add(task)
                task.add_done_callback(self._refreshed)
        if self._refreshes:
            await asyncio.wait(self._refreshes, timeout=REFRESHED_WITHIN)

    def _refreshed(self, task: asyncio.Future[None]) -> None:
        self._refreshes.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("metrics could not be brought up to date", error=repr(error))
