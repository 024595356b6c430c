"""Tells of records that used up their attempts: nobody will be given them again."""

from __future__ import annotations

import asyncio
from shlex import join
from typing import Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_server.share_partition_leader.core.counts import Counts
from sharebroker_server.share_partition_leader.metrics.counters import REST, Pair, Tallies

_log = structlog.get_logger()

EVERY: Final = 60.0
"""Seconds between two looks: what happens within them is one line a group and topic."""


class SetAside:
    """Of all that a process counts, from `start` on; what is new when it stops is told, too."""

    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies
        self._counted: dict[Pair, Counts] = {}
        self._told: dict[Pair, int] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Goes on until `stop`."""
        self._task = asyncio.create_task(self._run(), name="set aside")

    async def stop(self) -> None:
        """Ends it."""
        if self._task is not None:
            await end([self._task])
            self.look()

    def look(self) -> None:
        """Tell what was not told yet."""
        counted = dict(self._tallies.all())
        # A pair that made room goes on among the rest, also where it is counted by itself again since.
        for pair in [pair for pair in self._told if counted.get(pair) is not self._counted[pair]]:
            self._told[REST] = self._told.get(REST, 0) + self._told.pop(pair)
        self._counted = counted
        for pair, counts in counted.items():
            records = counts.exhausted - self._told.get(pair, 0)
            if records:
                self._told[pair] = counts.exhausted
                group, topic = pair
                which = {} if pair == REST else {"which": f"sharebroker verify {join(pair)} --offsets"}
                _log.warning(
                    "records used up their attempts", group=group, topic=topic, records=records, **which
                )

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            self.look()
