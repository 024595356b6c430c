"""Pauses a group of which too many records fail, before all its records are dead letters.

The counters of the leader are compared once a second, so that requests do nothing more. The pause is a config
of the group: it applies to all leaders, survives their fail-overs, and an administrator ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.clock import monotonic
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import AckType
from sharebroker_server.aio import Turns
from sharebroker_server.config.group import GroupConfig
from sharebroker_server.share_partition_leader.core.circuit_breaker import FailureWindow, Limit, Outcomes
from sharebroker_server.share_partition_leader.core.events import Counts
from sharebroker_server.share_partition_leader.metrics.counters import GroupTopic
from sharebroker_server.telemetry.metrics import Family, counter, gauge

INTERVAL: Final = 1.0
"""Seconds between two comparisons."""

GROUPS_AT_ONCE: Final = 500
"""Groups whose limits are read in one turn of the event loop."""

_log = structlog.get_logger()

Counted = Iterable[tuple[GroupTopic, Counts]]


class Groups(Protocol):
    """The groups of the catalog."""

    @property
    def most(self) -> int:
        """The number of groups with metrics of their own."""

    def limited(self) -> Iterable[tuple[str, GroupConfig]]:
        """Returns the groups whose share of failed records is limited."""

    def paused(self) -> Iterable[str]:
        """Returns the names of paused groups in order."""

    async def pause(self, group_id: str, reason: str) -> None:
        """Pauses a group. Raises KafkaError."""


class CircuitBreaker:
    """The circuit breakers of all groups, for the share-partitions that this process leads.

    Groups whose counters are merged, beyond `metrics.max.share.partitions`, have none.
    """

    def __init__(self, counted: Callable[[], Counted], groups: Groups) -> None:
        self._counted = counted
        self._groups = groups
        self._windows: dict[str, FailureWindow] = {}
        self._pauses: dict[str, int] = {}
        self._turns = Turns()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the periodic comparison."""
        self._task = asyncio.create_task(self._run(), name="circuit breaker")

    async def stop(self) -> None:
        """Stops it."""
        if self._task is not None:
            await end([self._task])

    async def check(self, time: float) -> None:
        """Compares the counters once, and pauses the groups that exceed their limits. `time`: seconds."""
        limits = dict(await self._turns.collect(self._groups.limited(), GROUPS_AT_ONCE))
        totals = _outcomes(self._counted(), limits)
        self._windows = {group: self._windows.get(group) or FailureWindow() for group in totals}
        for group, total in totals.items():
            config = limits[group]
            if config.share_paused:
                self._windows[group].restart(time, total)
                continue
            limit = Limit(
                config.share_breaker_failed_percent,
                config.share_breaker_window_ms / 1000,
                config.share_breaker_min_records,
            )
            outcomes = self._windows[group].add(time, total, limit.window)
            if limit.exceeded_by(outcomes):
                await self._pause(group, outcomes, limit)

    def families(self) -> Iterator[Family]:
        """Returns the metric families; see Collector."""
        most = self._groups.most
        yield gauge(
            "sharebroker_share_group_paused",
            "1 for each group that is paused (share.paused): its members receive no records.",
            ((("group", group), 1) for group in list(self._groups.paused())[:most]),
        )
        yield counter(
            "sharebroker_share_group_breaker_pauses_total",
            "Pauses of groups by their circuit breakers in this process.",
            ((("group", group), number) for group, number in list(self._pauses.items())[:most]),
        )

    async def _pause(self, group: str, outcomes: Outcomes, limit: Limit) -> None:
        finished = outcomes.accepted + outcomes.failed
        reason = (
            f"{outcomes.failed} of {finished} records failed within {limit.window:g} s; "
            f"share.breaker.failed.percent is {limit.percent}."
        )
        try:
            await self._groups.pause(group, reason)
        except KafkaError as error:
            _log.warning("group cannot be paused", group=group, reason=reason, error=str(error))
            return
        self._pauses[group] = self._pauses.get(group, 0) + 1
        _log.error(
            "group is paused by its circuit breaker",
            group=group,
            reason=reason,
            resume=f"sharebroker groups resume {group}",
        )

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                await self.check(monotonic())
            except Exception:  # the next comparison may succeed
                _log.exception("comparison of failed records failed")


def _outcomes(counted: Counted, groups: Iterable[str]) -> dict[str, Outcomes]:
    """Returns the sums of all topics of these groups."""
    totals = dict.fromkeys(groups, Outcomes(0, 0))
    if totals:
        for pair, counts in counted:
            if pair.group in totals:
                accepted, failed = totals[pair.group]
                totals[pair.group] = Outcomes(
                    accepted + counts.acknowledged[AckType.ACCEPT],
                    failed + counts.rejected + counts.exhausted,
                )
    return totals
