"""Port of a lease store.

A lease belongs to one owner, "node id/incarnation", until it expires by the store's clock. Its epoch only
increases, also over releases and expiries: a request with an older epoch comes from a former owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

LEAVING: Final = "leaving"
"""Marks a member that is shutting down, among its roles."""

IMPORTING: Final = "importing"
"""The role of a process that writes the logs of all coordinators: meanwhile no member owns them."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease at the time of the store's response; `expires_in` in seconds from then."""

    resource: str
    owner: str
    epoch: int
    expires_in: float


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """A broker of the cluster. `address` is the host:port of its gRPC listener for peers.

    `kafka` is the advertised host:port of its Kafka listener, or "". `version` is its release, "" if unknown.
    `skew` is the time in seconds by which its clock is ahead of the store's.
    """

    owner: str
    node_id: int
    roles: frozenset[str]
    address: str
    kafka: str = ""
    version: str = ""
    skew: float = field(default=0.0, compare=False)

    @property
    def is_dead(self) -> bool:
        """Whether a peer marked it dead: its leases are free."""
        return not self.address and not self.roles

    @property
    def is_leaving(self) -> bool:
        """Whether it is shutting down: it serves the leases it holds, and claims no more."""
        return LEAVING in self.roles

    @property
    def is_importing(self) -> bool:
        """Whether it is an import, which serves nothing: coordinators are handed over to it."""
        return IMPORTING in self.roles

    def as_dead(self) -> ClusterMember:
        """Returns the announcement of this member as dead."""
        return ClusterMember(self.owner, self.node_id, frozenset(), "")

    def as_leaving(self) -> ClusterMember:
        """Returns its leave notice. Without a Kafka address, Kafka clients use other brokers."""
        return replace(self, roles=self.roles | {LEAVING}, kafka="")


class LeasesUnavailable(Exception):
    """The store did not respond. The request may have been executed; repeating it is harmless."""


class LeaseLost(Exception):
    """Another owner holds the lease now."""


class LeaseStore(Protocol):
    """Leases by resource name, and announcements of members. Every method raises LeasesUnavailable.

    `clock_skew` is the time in seconds by which the clock of this process is ahead of the store's: the
    greatest value that the last measurements allow.
    """

    clock_skew: float = 0.0

    async def claim(self, resource: str, owner: str, ttl: float, *, force: bool = False) -> Lease:
        """Claims a lease; returns it as it is afterwards: ours, or that of an owner that still holds it.

        A free or expired lease, or one of an earlier incarnation of our node, becomes ours; its epoch
        increases by one. Our own live lease is extended and keeps its epoch. With `force` its epoch increases
        too, which fences our own writes of unknown outcome. `ttl` in seconds.
        """

    async def renew(self, epochs: Mapping[str, int], owner: str, ttl: float) -> Sequence[bool | None]:
        """Extends leases, given by resource with their epochs.

        Returns False for each that `owner` does not hold at this epoch: its writes would be fenced. Returns
        None for each whose server does not respond, if other servers do.
        """

    async def release(self, resource: str, owner: str) -> None:
        """Releases the lease if `owner` holds it; its epoch stays."""

    async def remove(self, resource: str) -> None:
        """Deletes the lease of a deleted resource, with its epoch."""

    async def read(self, resources: Sequence[str]) -> list[Lease | None]:
        """Returns the live leases, None for each that is free or expired."""

    async def announce(self, member: ClusterMember, ttl: float) -> bool:
        """Announces a member for `ttl` seconds; a newer incarnation replaces older ones of its node.

        Returns whether it had been marked dead: peers may have claimed its leases.
        """

    async def members(self) -> list[ClusterMember]:
        """Returns the members that are announced and not expired, by node id."""

    async def silent(self, ttl: float, since: float) -> list[ClusterMember]:
        """Returns members without an announcement in the last `since` seconds.

        `ttl` is the life of an announcement in seconds.
        """

    async def mark_dead(self, member: ClusterMember, ttl: float, since: float) -> bool:
        """Marks a silent member dead for `ttl` seconds, unless it announced itself meanwhile."""

    async def withdraw(self, owner: str) -> None:
        """Removes an announcement if it is still that of this incarnation."""

    async def generation(self, name: str, digest: str) -> int:
        """Returns the number of changes of `name`; increases it if `digest` is not the last one stored."""


class Ownership(Protocol):
    """One lease, as its owner uses it."""

    def holds(self, epoch: int) -> bool:
        """Returns whether the lease of this epoch is certain to be valid by the local clock."""

    async def reclaim(self) -> int:
        """Increases the epoch of the lease, which fences our own writes of unknown outcome.

        Raises LeaseLost if another owner holds the lease, LeasesUnavailable if the store does not respond.
        """
