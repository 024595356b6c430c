"""Membership of one broker in the cluster: its heartbeats, its view of the members, and its leave notice.

A member announces itself in the lease store with a time to live. The announcement is its heartbeat. The
failure detector marks members dead whose announcements stopped; the mark stays until the member would have
expired. A member whose own announcement had been marked dead has to assume that its leases were taken over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_server.leases.failure_detector import HEARTBEAT_INTERVAL, FailureDetector
from sharebroker_server.leases.port import LeaseStore, LeasesUnavailable, Member

_log = structlog.get_logger()

_NOTICE_INTERVALS: Final = 4
"""Intervals until all members and their clients have read a leave notice."""


class Membership:
    """Announces `me` and caches the live members. `ttl` is the life of an announcement in seconds.

    Without a failure detector, dead members stay until their announcements expire.
    """

    def __init__(
        self, store: LeaseStore, me: Member, ttl: float, failure_detector: FailureDetector | None
    ) -> None:
        self.me = me
        self.interval = min(ttl / 10, HEARTBEAT_INTERVAL)
        self.leaving = False
        self.live: tuple[Member, ...] = ()
        self.by_owner: Mapping[str, Member] = {}
        self.dead: frozenset[str] = frozenset()
        self.detection: asyncio.Task[None] | None = None
        self._store = store
        self._ttl = ttl
        self._failure_detector = failure_detector

    async def announce(self) -> bool:
        """Sends a heartbeat; returns whether a peer had marked this member dead. Raises LeasesUnavailable."""
        return await self._store.announce(self.me.as_leaving() if self.leaving else self.me, self._ttl)

    @property
    def needs_heartbeats(self) -> bool:
        """Whether peers expect a heartbeat per interval, instead of one per renewal of the leases."""
        return self._failure_detector is not None

    async def refresh(self) -> bool:
        """Reads the members; returns whether they changed. Raises LeasesUnavailable."""
        members = await self._store.members()
        live = {member.owner: member for member in members if not member.is_dead}
        dead = frozenset(member.owner for member in members if member.is_dead)
        if live == self.by_owner and dead == self.dead:
            return False
        self.by_owner, self.dead, self.live = live, dead, tuple(live.values())
        return True

    def detect_failures(self, on_dead: Callable[[], object]) -> None:
        """Starts a run of the failure detector unless one is in progress.

        Calls `on_dead` for a new dead member.
        """
        if self._failure_detector is not None and (self.detection is None or self.detection.done()):
            self.detection = asyncio.create_task(self._detect(self._failure_detector, on_dead))

    async def announce_leaving(self, running: bool) -> None:
        """Announces that this member is shutting down, and waits until its peers have read the notice.

        Returns at once if the member is not running, or if no peer has one of its roles.
        """
        self.leaving = True
        successors = (member for member in self.live if member.owner != self.me.owner)
        if not running or not any(member.roles & self.me.roles for member in successors):
            return
        try:
            await self.announce()
        except LeasesUnavailable:
            _log.info("leave notice failed; peers will detect the expiry")
        else:
            await asyncio.sleep(_NOTICE_INTERVALS * self.interval)

    async def stop_detection(self) -> None:
        """Cancels the failure detector."""
        await end([self.detection] if self.detection is not None else [])

    async def withdraw(self) -> None:
        """Removes the announcement; if the store is unavailable, it expires."""
        with contextlib.suppress(LeasesUnavailable):
            await self._store.withdraw(self.me.owner)

    async def _detect(self, detector: FailureDetector, on_dead: Callable[[], object]) -> None:
        with contextlib.suppress(LeasesUnavailable):
            if await detector.detect(self.me.owner):
                on_dead()
