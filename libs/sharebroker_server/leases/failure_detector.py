"""Failure detector: finds dead members before their leases expire.

A member is dead if its heartbeats stopped and its port refuses connections. A frozen process still accepts
connections, and an unreachable host does not refuse them: such members keep their leases until the leases
expire. The detector may be wrong about a member. Its writes are then fenced, because another broker has
claimed its leases with a higher epoch.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import ip_address
from typing import Final

from sharebroker_server.aio.threads import run_in_daemon_thread
from sharebroker_server.leases.port import LeaseStore, Member

HEARTBEAT_INTERVAL: Final = 0.3
"""Maximum seconds between two announcements of a member."""

SILENCE_TIMEOUT: Final = 0.7
"""Seconds without an announcement after which a member is probed."""

_SECOND_PROBE_DELAY: Final = 0.2
_PROBE_TIMEOUT: Final = 0.5

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
            member for member in await self._store.silent(self._ttl, SILENCE_TIMEOUT) if not member.is_dead
        ]
        results = await asyncio.gather(*(self._check(member) for member in silent if member.owner != me))
        return any(results)

    async def _check(self, member: Member) -> bool:
        if not await self._is_refused(member.address):
            return False
        await asyncio.sleep(_SECOND_PROBE_DELAY)  # a process that restarts there announces itself meanwhile
        return await self._is_refused(member.address) and await self._store.mark_dead(
            member, self._ttl, SILENCE_TIMEOUT
        )
