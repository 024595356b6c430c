"""Finds processes that died long before their leases run out.

Dead is who has fallen silent and has nobody listening at its address. Who stands still still listens, and
who is cut off does not refuse: they keep their leases until those run out. What a process writes that was
taken for dead and is not is fenced, as its leases are another's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from libs.leases.port import LeaseStore, Member

BEAT: Final = 0.3
"""Seconds between two announcements of a process, at most."""

SILENCE: Final = 0.7
"""Seconds without an announcement after which a process may have died."""

_AGAIN: Final = 0.2
_ANSWER: Final = 0.5

Refused = Callable[[str], Awaitable[bool]]


async def refused(address: str) -> bool:
    """Whether the machine at HOST:PORT answers, and says that nobody listens there."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_ANSWER):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except ConnectionRefusedError:
        return True
    except OSError:  # TimeoutError is one
        return False
    writer.close()
    return False


class Deaths:
    """Looks for members that died and has them known as gone; `ttl` in seconds, as announcements have it."""

    def __init__(self, store: LeaseStore, ttl: float, refused: Refused = refused) -> None:
        self._store = store
        self._ttl = ttl
        self._refused = refused

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
