"""Logs records that reached the delivery limit: they are archived and not delivered again."""

from __future__ import annotations

import asyncio
from shlex import join
from typing import Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_server.share_partition_leader.core.counts import Counts
from sharebroker_server.share_partition_leader.metrics.counters import OTHER, CounterRegistry, GroupTopic

_log = structlog.get_logger()

INTERVAL: Final = 60.0
"""Seconds between two reports, each with at most one line per group and topic."""


class ExhaustedRecordsLogger:
    """Compares the counters with the last report; reports a last time when it stops."""

    def __init__(self, counters: CounterRegistry) -> None:
        self._counters = counters
        self._counted: dict[GroupTopic, Counts] = {}
        self._reported: dict[GroupTopic, int] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the periodic report."""
        self._task = asyncio.create_task(self._run(), name="exhausted records log")

    async def stop(self) -> None:
        """Stops it, after a last report."""
        if self._task is not None:
            await end([self._task])
            self.report()

    def report(self) -> None:
        """Logs the records that were exhausted since the last report."""
        counted = dict(self._counters.all())
        # Counts that were merged into OTHER continue there, even if the pair is counted separately again.
        for pair in [pair for pair in self._reported if counted.get(pair) is not self._counted[pair]]:
            self._reported[OTHER] = self._reported.get(OTHER, 0) + self._reported.pop(pair)
        self._counted = counted
        for pair, counts in counted.items():
            records = counts.exhausted - self._reported.get(pair, 0)
            if records:
                self._reported[pair] = counts.exhausted
                inspect = {} if pair == OTHER else {"inspect": f"sharebroker verify {join(pair)} --offsets"}
                _log.warning(
                    "records reached the delivery limit",
                    group=pair.group,
                    topic=pair.topic,
                    records=records,
                    **inspect,
                )

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            self.report()
