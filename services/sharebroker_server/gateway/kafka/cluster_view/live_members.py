"""Live members, minus those whose port already refuses connections (faster than lease expiry).

After a broken connection a client requests the leaders at once, and librdkafka does not repeat that request
within a second. The broker that receives it therefore probes the ports of the others before it responds. The
failure detector (`sharebroker_server.leases.membership`) decides whether a process is dead. A member
that it has not declared dead within `_DETECTION_TIME` is alive, and its refused connection no longer counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Final

from sharebroker_server.leases.membership import IsRefused
from sharebroker_server.leases.port import Member

_PROBE_INTERVAL: Final = 0.1
"""Seconds for which the result of a port probe is valid."""

_PROBE_WAIT: Final = 0.1
"""Seconds that a caller waits for port probes; a host that is down never responds."""

_DETECTION_TIME: Final = 3.0
"""Seconds within which the failure detector declares a dead process dead."""


class LiveMembers:
    """The announced members without the suspected ones.

    `members` returns the announced members; `refused` probes whether an address refuses connections.
    """

    def __init__(
        self,
        members: Callable[[], Sequence[Member]],
        refused: IsRefused,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._members = members
        self._refused = refused
        self._now = now
        self._suspected: dict[str, float] = {}
        self._probed: dict[str, float] = {}
        self._probing: dict[str, asyncio.Task[None]] = {}

    def live(self) -> Sequence[Member]:
        """Returns the announced members that are not suspected."""
        members = self._members()
        if not self._suspected:
            return members
        owners = {member.owner for member in members}
        self._suspected = {owner: since for owner, since in self._suspected.items() if owner in owners}
        return [member for member in members if not self.is_suspected(member)]

    def is_suspected(self, member: Member) -> bool:
        """Returns whether the member's port refused a connection within the detection time."""
        since = self._suspected.get(member.owner)
        return since is not None and self._now() - since < _DETECTION_TIME

    def is_leaving(self, member: Member) -> bool:
        """Returns whether clients should leave the member: it announced that it leaves, or it is
        suspected.
        """
        announced = (other.is_leaving for other in self._members() if other.owner == member.owner)
        return self.is_suspected(member) or any(announced)

    async def probe(self, members: Iterable[Member]) -> None:
        """Probes the ports of these members in parallel, for `_PROBE_WAIT` seconds at most."""
        now = self._now()
        for member in members:
            owner = member.owner
            due = now - self._probed.get(owner, -_PROBE_INTERVAL) >= _PROBE_INTERVAL
            if owner not in self._probing and due:
                self._probing[owner] = asyncio.create_task(self._probe(member))
        if self._probing:
            await asyncio.wait(list(self._probing.values()), timeout=_PROBE_WAIT)

    async def _probe(self, member: Member) -> None:
        try:
            if await self._refused(member.address):
                self._suspected.setdefault(member.owner, self._now())
        finally:
            del self._probing[member.owner]
            announced = {other.owner for other in self._members()}
            self._probed = {owner: at for owner, at in self._probed.items() if owner in announced}
            self._probed[member.owner] = self._now()
