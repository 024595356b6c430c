"""Which processes there are, less those whose machine says that they died before anybody else has noticed.

A client whose connection broke asks for the leaders at once, and librdkafka not again within a second:
whoever answers then looks whether the brokers still listen. That a process died is for others to say
(sharebroker_server.leases.failure_detector): who is not gone soon is alive, and not doubted again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Final

from sharebroker_server.leases.failure_detector import IsRefused
from sharebroker_server.leases.port import Member

_AGAIN: Final = 0.1
"""Seconds for which an answer of a machine holds."""

_WAIT: Final = 0.1
"""Seconds that a caller waits for machines to answer; one that is gone as a whole never does."""

_PATIENCE: Final = 3.0
"""Seconds within which a process that died is known as gone."""


class Announced:
    """`members` tells who is announced; `refused` asks whether nobody listens at an address any more."""

    def __init__(
        self,
        members: Callable[[], Sequence[Member]],
        refused: IsRefused,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._members = members
        self._refused = refused
        self._now = now
        self._doubted: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def present(self) -> Sequence[Member]:
        """Everybody that is announced and not in doubt."""
        members = self._members()
        if not self._doubted:
            return members
        owners = {member.owner for member in members}
        self._doubted = {owner: since for owner, since in self._doubted.items() if owner in owners}
        return [member for member in members if not self.doubts(member)]

    def doubts(self, member: Member) -> bool:
        """Whether its machine says that nobody listens, and has said so only now."""
        since = self._doubted.get(member.owner)
        return since is not None and self._now() - since < _PATIENCE

    def takes_leave(self, member: Member) -> bool:
        """Whether clients are to leave it in good order: it says so itself, or is in doubt."""
        return self.doubts(member) or any(
            one.is_leaving for one in self._members() if one.owner == member.owner
        )

    async def look(self, members: Iterable[Member]) -> None:
        """Ask the machines of these, at once, for a moment at most."""
        now = self._now()
        for member in members:
            owner = member.owner
            if owner not in self._asking and now - self._asked.get(owner, -_AGAIN) >= _AGAIN:
                self._asking[owner] = asyncio.create_task(self._ask(member))
        if self._asking:
            await asyncio.wait(list(self._asking.values()), timeout=_WAIT)

    async def _ask(self, member: Member) -> None:
        try:
            if await self._refused(member.address):
                self._doubted.setdefault(member.owner, self._now())
        finally:
            del self._asking[member.owner]
            announced = {one.owner for one in self._members()}
            self._asked = {owner: at for owner, at in self._asked.items() if owner in announced}
            self._asked[member.owner] = self._now()
