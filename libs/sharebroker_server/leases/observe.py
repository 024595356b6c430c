"""Observation of leases and membership: log events and metrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.names import kind_of
from sharebroker_server.leases.port import IMPORTING, LEAVING, ClusterMember
from sharebroker_server.telemetry.metrics import Family, counter, gauge

_log = structlog.get_logger()

INTERVAL: Final = 0.5
"""Seconds between two comparisons; the changes between them share one log line."""


_STATES: Final = {LEAVING, IMPORTING}
"""Roles of members that are no roles of brokers."""


class MembershipLogger:
    """Logs members that join, leave or die, and leases that move, from `start` to `stop`."""

    def __init__(self, holder: LeaseHolder) -> None:
        self._holder = holder
        self._members: dict[str, ClusterMember] = {}
        self._acquired: Counter[str] = Counter()
        self._released: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts logging. Members present at start are not logged."""
        self._members = {member.owner: member for member in self._holder.members}
        self._task = asyncio.create_task(self._run(), name="membership-log")

    async def stop(self) -> None:
        """Stops, after logging the leases that were handed over."""
        if self._task is not None:
            await end([self._task])
            self._log_leases()

    def log_changes(self) -> None:
        """Logs the differences since the last call."""
        before, self._members = self._members, {member.owner: member for member in self._holder.members}
        for owner, member in self._members.items():
            if owner not in before and member.is_importing:
                _log.info("import announced", version=member.version)
            elif owner not in before:
                _log.info("broker joined", **_fields(member), version=member.version)
        for owner, member in before.items():
            if owner not in self._members:
                if member.is_importing:
                    _log.info("import ended")
                elif member.is_leaving:
                    _log.info("broker left", **_fields(member))
                else:
                    _log.warning("broker lost (no leave announcement)", **_fields(member))
        self._log_leases()

    async def _run(self) -> None:
        while True:
            self.log_changes()
            await asyncio.sleep(INTERVAL)

    def _log_leases(self) -> None:
        acquired, released = self._holder.acquired - self._acquired, self._holder.released - self._released
        if acquired or released:
            self._acquired, self._released = Counter(self._holder.acquired), Counter(self._holder.released)
            held = len(self._holder.held())
            _log.info("leases moved", acquired=_sorted(acquired), released=_sorted(released), held=held)


def lease_families(holder: LeaseHolder) -> Iterable[Family]:
    """Returns the metric families of leases and members."""
    held = Counter(kind_of(resource) for resource in holder.held())
    missing = Counter(kind_of(resource) for resource in holder.missing())
    yield gauge(
        "sharebroker_leases_held",
        "Leases of shards and partitions that this broker holds.",
        ((("kind", kind), held[kind]) for kind in sorted({*held, *holder.acquired})),
    )
    yield gauge(
        "sharebroker_leases_missing",
        "Leases that this broker should hold and does not hold.",
        ((("kind", kind), missing[kind]) for kind in sorted({*missing, *holder.acquired})),
    )
    yield counter(
        "sharebroker_lease_changes_total",
        "Leases that this broker acquired or lost.",
        (
            (("kind", kind, "change", change), count)
            for change, counts in (("acquired", holder.acquired), ("lost", holder.released))
            for kind, count in sorted(counts.items())
        ),
    )
    yield gauge(
        "sharebroker_members",
        "Live brokers of the cluster, by role.",
        (
            (("role", role), count)
            for role, count in sorted(Counter(r for m in holder.members for r in m.roles - _STATES).items())
        ),
    )


def _fields(member: ClusterMember) -> dict[str, object]:
    return {"address": member.address, "roles": sorted(member.roles - {LEAVING})}


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))
