"""The leases that an import holds, so that its writes are fenced like those of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

from sharebroker_protocol.cancellation import end
from sharebroker_server.aio import gather_in_portions
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.leases.identity import temporary
from sharebroker_server.leases.membership import HEARTBEAT_INTERVAL
from sharebroker_server.leases.port import IMPORTING, ClusterMember, LeaseLost, LeasesUnavailable
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.stream_log.port import LogFenced
from sharebroker_server.telemetry.process import release

RETRY_SECONDS: Final = 0.1
GRACE_SECONDS: Final = 2.0
"""How much longer than its life the lease of a dead server or of a killed import is awaited."""

LEASE_SECONDS: Final = 5.0
"""The life of leases and announcement: servers wait as long for an import that was killed."""

_ADDRESS: Final = "import"
"""In place of an address: an import serves nothing."""


class ClaimedLeases:
    """Leases by resource. `server_ttl` is the life of a server's lease, `ttl` that of these, in seconds."""

    def __init__(self, store: RedisLeaseStore, server_ttl: float, ttl: float = LEASE_SECONDS) -> None:
        self._store = store
        self._server_ttl = server_ttl
        self._ttl = ttl
        identity = temporary()
        self._owner = identity.owner
        self._member = ClusterMember(
            identity.owner, identity.node_id, frozenset({IMPORTING}), _ADDRESS, version=release()
        )
        self._epochs: dict[str, int] = {}

    def epoch(self, resource: str) -> int:
        """Returns the epoch of a claimed lease."""
        return self._epochs[resource]

    async def claim(self, least_epochs: Mapping[str, int]) -> None:
        """Claims leases whose epochs are then at least those given. Raises ArchiveError, LeasesUnavailable.

        Leases of a dead server or of a killed import expire soon. Servers hand over those of coordinators
        while this process is `announced`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(self._server_ttl, self._ttl) + GRACE_SECONDS
        missing = dict(least_epochs)
        while missing:
            owners = await gather_in_portions(lambda item: self._claim(*item), missing.items())
            missing = {
                resource: epoch
                for (resource, epoch), owner in zip(missing.items(), owners, strict=True)
                if owner != self._owner
            }
            if missing and loop.time() > deadline:
                raise ArchiveError(
                    f"Another process holds the lease of {next(iter(missing))}, and does not release it: "
                    "another import, or a server that does not respond. End it, and repeat the command."
                )
            if missing:
                await asyncio.sleep(RETRY_SECONDS)

    async def check(self) -> None:
        """Raises LeaseLost if another process has claimed one of the leases. Raises LeasesUnavailable."""
        epochs = dict(self._epochs)
        renewed = await self._store.renew(epochs, self._owner, self._ttl)
        lost = [resource for resource, ours in zip(epochs, renewed, strict=True) if ours is False]
        if lost:
            raise LeaseLost(lost[0])

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Renews the leases until the block ends, and then releases them.

        Raises ArchiveError if the block fails because another process has claimed one of them.
        """
        renewing = asyncio.create_task(self._renew_forever(), name="lease renewal")
        try:
            yield
        except (LeaseLost, LogFenced) as error:
            raise ArchiveError(
                f"The import stood still, and another process took over what it writes ({error}). "
                "Repeat the command."
            ) from error
        finally:
            await end([renewing])
            with suppress(LeasesUnavailable):  # they expire
                await self._release(self._epochs)

    @asynccontextmanager
    async def announced(self) -> AsyncIterator[None]:
        """Announces this process to the servers until the block ends: they hand over all coordinators.

        Raises LeasesUnavailable.
        """
        await self._announce()
        announcing = asyncio.create_task(self._announce_forever(), name="announcement of an import")
        try:
            yield
        finally:
            await end([announcing])
            with suppress(LeasesUnavailable):  # it expires
                await self._store.withdraw(self._owner)

    async def _announce(self) -> None:
        await self._store.announce(self._member, self._ttl)

    async def _announce_forever(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL)
            with suppress(LeasesUnavailable):
                await self._announce()

    async def _claim(self, resource: str, least_epoch: int) -> str:
        lease = await self._store.claim_from(resource, self._owner, self._ttl, least_epoch)
        if lease.owner == self._owner:
            self._epochs[resource] = lease.epoch
        return lease.owner

    async def _release(self, resources: Iterable[str]) -> None:
        await gather_in_portions(lambda resource: self._store.release(resource, self._owner), resources)

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(self._ttl / 3)
            # The copy is sent in portions, while claims may add leases.
            with suppress(LeasesUnavailable):  # a write with a lost lease is rejected
                await self._store.renew(dict(self._epochs), self._owner, self._ttl)
