"""Membership of one broker in the cluster: heartbeats, the view of the members, the failure detector.

A member announces itself in the lease store with a time to live. The announcement is its heartbeat. The
failure detector marks dead members before their leases expire; the mark stays until the member would have
expired. A member whose own announcement had been marked dead has to assume that its leases were taken over.

A member is dead if its heartbeats stopped and its port refuses connections. A frozen process still accepts
connections, and an unreachable host does not refuse them: such members keep their leases until the leases
expire. The detector may be wrong about a member. Its writes are then fenced, because another broker has
claimed its leases with a higher epoch.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_server.aio import run_in_daemon_thread
from sharebroker_server.leases.port import ClusterMember, LeaseStore, LeasesUnavailable

HEARTBEAT_INTERVAL: Final = 0.3
"""Maximum seconds between two announcements of a member."""

SILENCE_TIMEOUT: Final = 0.7
"""Seconds without an announcement after which a member is probed."""

_SECOND_PROBE_DELAY: Final = 0.2
_PROBE_TIMEOUT: Final = 0.5

QUIET_PERIOD: Final = 60.0
"""Minimum seconds between two log lines of an outage."""

_MAX_NAMES: Final = 3

IsRefused = Callable[[str], Awaitable[bool]]


class PortProbe:
    """Distinguishes a dead process from a frozen or unreachable one by a connection attempt.

    Names are resolved in daemon threads, one per name: a lookup may take longer than a probe, and asyncio
    waits for the threads of its own executor at shutdown.
    """

    def __init__(self) -> None:
        self._lookups: dict[str, asyncio.Future[str]] = {}

    async def is_refused(self, address: str) -> bool:
        """Returns whether the machine at HOST:PORT responds and refuses the connection."""
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                _, writer = await asyncio.open_connection(await self._resolve(host.strip("[]")), int(port))
        except ConnectionRefusedError:
            return True
        except OSError:  # TimeoutError is an OSError
            return False
        writer.close()
        return False

    async def _resolve(self, host: str) -> str:
        """Returns the machine's IP address. Raises OSError."""
        with contextlib.suppress(ValueError):
            return str(ip_address(host))
        lookup = self._lookups.get(host)
        if lookup is None:
            lookup = self._lookups[host] = run_in_daemon_thread(partial(_look_up, host), "host-lookup")
            lookup.add_done_callback(lambda _: self._lookups.pop(host))
        address = await asyncio.shield(lookup)
        if not address:
            raise OSError(f"unknown host {host}")
        return address


def _look_up(host: str) -> str:
    """Returns "" for an unknown host: an exception would be unhandled if the caller timed out before."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        return ""


class FailureDetector:
    """Marks dead members in the store. `ttl` is the life of an announcement in seconds."""

    def __init__(self, store: LeaseStore, ttl: float, is_refused: IsRefused | None = None) -> None:
        self._store = store
        self._ttl = ttl
        self._is_refused = is_refused or PortProbe().is_refused

    async def detect(self, me: str) -> bool:
        """Probes silent members other than `me`; returns whether any is dead. Raises LeasesUnavailable."""
        silent = [
            member
            for member in await self._store.silent(self._ttl, SILENCE_TIMEOUT)
            if not (member.is_dead or member.is_importing)  # an import has no port
        ]
        results = await asyncio.gather(*(self._check(member) for member in silent if member.owner != me))
        return any(results)

    async def _check(self, member: ClusterMember) -> bool:
        if not await self._is_refused(member.address):
            return False
        await asyncio.sleep(_SECOND_PROBE_DELAY)  # a process that restarts there announces itself meanwhile
        return await self._is_refused(member.address) and await self._store.mark_dead(
            member, self._ttl, SILENCE_TIMEOUT
        )


_log = structlog.get_logger()

_NOTICE_INTERVALS: Final = 4
"""Intervals until all members and their clients have read a leave notice."""


class ClusterMembership:
    """Announces `me` and caches the live members. `ttl` is the life of an announcement in seconds.

    Without a failure detector, dead members stay until their announcements expire.
    """

    def __init__(
        self, store: LeaseStore, me: ClusterMember, ttl: float, failure_detector: FailureDetector | None
    ) -> None:
        self.me = me
        self.interval = min(ttl / 10, HEARTBEAT_INTERVAL)
        self.leaving = False
        self.live: tuple[ClusterMember, ...] = ()
        self.by_owner: Mapping[str, ClusterMember] = {}
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


class OutageLog:
    """Logs when the lease store becomes unavailable and available again. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._logged = False
        self._next = clock()

    def failed(self, reason: Exception) -> None:
        """Records a failed request; logs at most once per `QUIET_PERIOD`."""
        now = self._clock()
        if self._since is None:
            self._since, self._logged = now, False
        if now >= self._next:
            self._next, self._logged = now + QUIET_PERIOD, True
            seconds = round(now - self._since, 1)
            _log.warning("lease renewal failing", reason=str(reason), seconds=seconds)

    def succeeded(self) -> None:
        """Ends an outage, and logs its end if its begin was logged."""
        if self._since is not None and self._logged:
            seconds = round(self._clock() - self._since, 1)
            _log.warning("lease renewal recovered", seconds=seconds)
        self._since = None


class ClaimLog:
    """Logs failed claims: one line for a kind of resources in `QUIET_PERIOD`, with the number of others.

    Each request claims the lease that it needs, so that failures may come by the thousand.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next: dict[str, float] = {}
        self._unlogged: Counter[str] = Counter()

    def failed(self, kind: str, resource: str, error: BaseException) -> None:
        """Records a failed claim."""
        now = self._clock()
        if now < self._next.get(kind, now):
            self._unlogged[kind] += 1
            return
        self._next[kind] = now + QUIET_PERIOD
        _log.warning(
            "lease claim failed", resource=resource, error=str(error), unlogged=self._unlogged.pop(kind, 0)
        )


def log_expired(resources: Sequence[str]) -> None:
    """Logs leases that expired before their renewal."""
    if resources:
        names = sorted(resources)[:_MAX_NAMES]
        _log.warning("leases expired before renewal", leases=len(resources), first=names)
