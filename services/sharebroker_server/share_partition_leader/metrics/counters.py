"""Counts per group and topic, with a limit on how many are exported with labels of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from operator import itemgetter
from shlex import join
from typing import Final, NamedTuple, Protocol

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_server.share_partition_leader.core.events import Counts
from sharebroker_server.telemetry.metrics import OTHER as OTHER_LABEL


class GroupTopic(NamedTuple):
    """A share group and a topic, by name."""

    group: str
    topic: str


OTHER: Final = GroupTopic(OTHER_LABEL, OTHER_LABEL)
"""Stands for all groups and topics beyond the cardinality limit."""


class InUse(Protocol):
    """A share-partition."""

    group_id: str
    topic: str


class CounterRegistry:
    """Counts by group and topic.

    Beyond `limit` of them, the counts of pairs without a loaded share-partition are merged into OTHER. If all
    pairs are in use, new ones are counted as OTHER.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._counts: dict[GroupTopic, Counts] = {}
        self._other = Counts()

    def get(self, group_id: str, topic: str, in_use: Callable[[], Iterable[InUse]]) -> Counts:
        """Returns the counts that a share-partition of this group and topic adds to."""
        pair = GroupTopic(group_id, topic)
        if pair == OTHER:
            return self._other
        found = self._counts.get(pair)
        if found is not None:
            return found
        if len(self._counts) >= self._limit():
            self._merge_unused({(item.group_id, item.topic) for item in in_use()})
        if len(self._counts) >= self._limit():
            return self._other
        made = self._counts[pair] = Counts()
        return made

    def all(self) -> list[tuple[GroupTopic, Counts]]:
        """Returns all counts, sorted by group and topic, OTHER last."""
        return [*sorted(self._counts.items(), key=itemgetter(0)), (OTHER, self._other)]

    def _merge_unused(self, used: set[tuple[str, str]]) -> None:
        for pair in [pair for pair in self._counts if pair not in used]:
            self._other.merge(self._counts.pop(pair))


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
                inspect = (
                    {}
                    if pair == OTHER
                    else {"inspect": f"sharebroker groups failed {join((pair[0], '--topic', pair[1]))}"}
                )
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
