"""Ports of a lease for the owner of a shard or partition."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from typing_extensions import override


class Ownership(Protocol):
    """One lease, as its owner uses it."""

    def holds(self, epoch: int) -> bool:
        """Returns whether the lease of this epoch is surely valid now."""

    async def reclaim(self) -> int:
        """Increases the epoch of the lease, which fences our own writes of unknown outcome.

        Raises LeaseLost if another owner holds the lease, LeasesUnavailable if the store does not respond.
        """


class Holder(Protocol):
    """The part of `sharebroker_server.leases.holder.LeaseHolder` that hosts of shards and partitions use."""

    def register(
        self,
        resource_kind: str,
        resources: Callable[[], Iterable[str]],
        role: str,
        on_acquired: Callable[[str, int], Awaitable[None]],
        on_lost: Callable[[str], Awaitable[None]],
    ) -> None:
        """Registers the owner of a kind of resources."""

    def holds(self, resource: str) -> int | None:
        """Returns the epoch while the lease is surely valid, else None."""

    async def reclaim(self, resource: str) -> int:
        """Increases the epoch of a held lease."""


class LeaseOwnership(Ownership):
    """One lease of the broker's holder."""

    def __init__(self, holder: Holder, resource: str) -> None:
        self._holder = holder
        self._resource = resource

    @override
    def holds(self, epoch: int) -> bool:
        return self._holder.holds(self._resource) == epoch

    @override
    async def reclaim(self) -> int:
        return await self._holder.reclaim(self._resource)
