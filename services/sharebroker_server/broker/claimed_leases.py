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
from sharebroker_server.leases.port import LeasesUnavailable
from sharebroker_server.leases.redis import RedisLeaseStore

RETRY_SECONDS: Final = 0.2
GRACE_SECONDS: Final = 2.0
"""How much longer than the life of a lease a dead server's lease is awaited."""


class ClaimedLeases:
    """Leases by resource. `ttl` is the life of a lease in seconds."""

    def __init__(self, store: RedisLeaseStore, ttl: float) -> None:
        self._store = store
        self._ttl = ttl
        self._owner = temporary().owner
        self._epochs: dict[str, int] = {}

    def epoch(self, resource: str) -> int:
        """Returns the epoch of a claimed lease."""
        return self._epochs[resource]

    async def claim(self, least_epochs: Mapping[str, int]) -> None:
        """Claims leases whose epochs are then at least those given. Raises ArchiveError, LeasesUnavailable.

        Leases of a dead server expire soon; those of a server that runs do not.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._ttl + GRACE_SECONDS
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
                    f"A server of the cluster runs: it holds the lease of {next(iter(missing))}. "
                    "Stop all servers, and repeat the import."
                )
            if missing:
                await asyncio.sleep(RETRY_SECONDS)

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Renews the leases until the block ends, and then releases them."""
        renewing = asyncio.create_task(self._renew_forever(), name="lease renewal")
        try:
            yield
        finally:
            await end([renewing])
            with suppress(LeasesUnavailable):  # they expire
                await self._release(self._epochs)

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
