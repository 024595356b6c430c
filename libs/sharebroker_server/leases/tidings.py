"""What a log says of the cluster as one process sees it: others that come and go, leases that move."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.port import LEAVING, Member

_log = structlog.get_logger()

EVERY: Final = 0.5
"""Seconds between two looks: what happens within them is one line."""


class Tidings:
    """Of what a holder knows, from `start` on. `stop` tells what was handed over."""

    def __init__(self, holder: LeaseHolder) -> None:
        self._holder = holder
        self._members: dict[str, Member] = {}
        self._taken: Counter[str] = Counter()
        self._given: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Who is there by now is no news."""
        self._members = {member.owner: member for member in self._holder.members}
        self._task = asyncio.create_task(self._run(), name="tidings")

    async def stop(self) -> None:
        """Not any more."""
        if self._task is not None:
            await end([self._task])
            self._leases()

    def look(self) -> None:
        """Tell what is other than before."""
        before, self._members = self._members, {member.owner: member for member in self._holder.members}
        for owner, member in self._members.items():
            if owner not in before:
                _log.info("a process came", **_told(member), version=member.version)
        for owner, member in before.items():
            if owner not in self._members:
                if member.leaving:
                    _log.info("a process left", **_told(member))
                else:
                    _log.warning("a process is gone without a word", **_told(member))
        self._leases()

    async def _run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(EVERY)

    def _leases(self) -> None:
        taken, given = self._holder.taken - self._taken, self._holder.given - self._given
        if taken or given:
            self._taken, self._given = Counter(self._holder.taken), Counter(self._holder.given)
            held = len(self._holder.held())
            _log.info("leases moved", taken=_sorted(taken), given=_sorted(given), held=held)


def _told(member: Member) -> dict[str, object]:
    return {"address": member.address, "roles": sorted(member.roles - {LEAVING})}


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))
