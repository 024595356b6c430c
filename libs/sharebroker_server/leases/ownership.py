"""What the owner of a shard or partition needs to know of its lease, and the lease holder as the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol


class Ownership(Protocol):
    """One lease, seen from its owner."""

    def holds(self, epoch: int) -> bool:
        """Whether the lease of this epoch is surely still valid by our clock."""

    async def reclaim(self) -> int:
        """A higher epoch of the same lease, which fences our own writes of unknown outcome.

        Raises LeaseLost when another owner has it, LeasesUnavailable when that cannot be known yet.
        """


class Holder(Protocol):
    """What the hosts of shards and partitions need of `sharebroker_server.leases.holder.LeaseHolder`."""

    def watch(
        self,
        resource_kind: str,
        resources: Callable[[], Iterable[str]],
        role: str,
        on_acquired: Callable[[str, int], Awaitable[None]],
        on_lost: Callable[[str], Awaitable[None]],
    ) -> None:
        """Claim these resources whenever they fall to us."""

    def holds(self, resource: str) -> int | None:
        """The epoch while the lease is surely valid by our clock."""

    async def reclaim(self, resource: str) -> int:
        """Force a higher epoch of a lease that is ours."""


class LeaseOwnership:
    """One lease of the process's holder."""

    def __init__(self, holder: Holder, resource: str) -> None:
        self._holder = holder
        self._resource = resource

    def holds(self, epoch: int) -> bool:
        """As the port says."""
        return self._holder.holds(self._resource) == epoch

    async def reclaim(self) -> int:
        """As the port says."""
        return await self._holder.reclaim(self._resource)
