"""Finds processes that died long before their leases run out.

Dead is who has fallen silent and has nobody listening at its address. Who stands still still listens, and
who is cut off does not refuse: they keep their leases until those run out. What a process writes that was
taken for dead and is not is fenced, as its leases are another's.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import ip_address
from typing import Final

from sharebroker_server.aio.threads import aside
from sharebroker_server.leases.port import LeaseStore, Member

BEAT: Final = 0.3
"""Seconds between two announcements of a process, at most."""

SILENCE: Final = 0.7
"""Seconds without an announcement after which a process may have died."""

_AGAIN: Final = 0.2
_ANSWER: Final = 0.5

Refused = Callable[[str], Awaitable[bool]]


class Doors:
    """Asks machines whether anybody listens at an address.

    Names are looked up in threads of their own, one a name: that may take longer than anybody here waits, and
    asyncio waits for its own threads when it ends.
    """

    def __init__(self) -> None:
        self._lookups: dict[str, asyncio.Future[str]] = {}

    async def refused(self, address: str) -> bool:
        """Whether the machine at HOST:PORT answers, and says that nobody listens there."""
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(_ANSWER):
                _, writer = await asyncio.open_connection(await self._found(host.strip("[]")), int(port))
        except ConnectionRefusedError:
            return True
        except OSError:  # TimeoutError is one
            return False
        writer.close()
        return False

    async def _found(self, host: str) -> str:
        """The machine's IP address. Raises OSError."""
        with contextlib.suppress(ValueError):
            return str(ip_address(host))
        lookup = self._lookups.get(host)
        if lookup is None:
            lookup = self._lookups[host] = aside(partial(_address, host), "look-up")
            lookup.add_done_callback(lambda _: self._lookups.pop(host))
        found = await asyncio.shield(lookup)
        if not found:
            raise OSError(f"nobody knows {host}")
        return found


def _address(host: str) -> str:
    """Nothing where nobody knows the host: who asked may have gone, and then an error would be nobody's."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, UnicodeError):
        return ""


class Deaths:
    """Looks for members that died and has them known as gone; `ttl` in seconds, as announcements have it."""

    def __init__(self, store: LeaseStore, ttl: float, refused: Refused | None = None) -> None:
        self._store = store
        self._ttl = ttl
        self._refused = refused or Doors().refused

    async def find(self, searcher: str) -> bool:
        """Whether any member but the searcher was found dead. Raises LeasesUnavailable."""
        silent = [member for member in await self._store.silent(self._ttl, SILENCE) if not member.gone]
        found = await asyncio.gather(*(self._died(member) for member in silent if member.owner != searcher))
        return any(found)

    async def _died(self, member: Member) -> bool:
        if not await self._refused(member.address):
            return False
        await asyncio.sleep(_AGAIN)  # a process that is started again there will have announced itself
        return await self._refused(member.address) and await self._store.depose(member, self._ttl, SILENCE)
