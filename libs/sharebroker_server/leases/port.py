"""Leases: what a store of them promises.

A lease belongs to one owner, "node id/incarnation", until it expires by the store's clock. Its epoch only
rises, over releases and expiries too: what carries an older epoch comes from a past owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

LEAVING: Final = "leaving"
"""Stands among the roles of a member that is handing over."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as it stood when the store answered; `expires_in` in seconds from then."""

    resource: str
    owner: str
    epoch: int
    expires_in: float


@dataclass(frozen=True, slots=True)
class Member:
    """A process of the cluster: `address` is the gRPC host:port others reach it at.

    `kafka` is the host:port of its Kafka door for clients, "" where it has none; `version` that of its
    program, "" where it does not say; `skew` the seconds by which its clock is ahead of the store's.
    """

    owner: str
    node_id: int
    roles: frozenset[str]
    address: str
    kafka: str = ""
    version: str = ""
    skew: float = field(default=0.0, compare=False)

    @property
    def gone(self) -> bool:
        """Whether it was found dead: what it still holds is free."""
        return not self.address and not self.roles

    @property
    def leaving(self) -> bool:
        """Whether it is handing over: it serves what it holds, and takes nothing more."""
        return LEAVING in self.roles

    def left(self) -> Member:
        """How it is announced once it is dead."""
        return Member(self.owner, self.node_id, frozenset(), "")

    def on_leave(self) -> Member:
        """How it announces that it hands over; Kafka clients are to go elsewhere."""
        return replace(self, roles=self.roles | {LEAVING}, kafka="")


class LeasesUnavailable(Exception):
    """The store did not answer; what was asked may or may not have happened, and asking again is harmless."""


class LeaseStore(Protocol):
    """Leases by resource name, and the announcements of members. Every method raises LeasesUnavailable."""

    async def claim(self, resource: str, owner: str, ttl: float, *, force: bool = False) -> Lease:
        """The lease as it stands after: ours, or the one of another owner who still holds it.

        It becomes ours with the epoch raised by one when it was free, expired, or held by an earlier
        incarnation of our node. Our own live lease is extended with its epoch kept; with `force` its epoch
        rises too, which fences our own writes of unknown outcome. `ttl` in seconds.
        """

    async def renew(self, epochs: Mapping[str, int], owner: str, ttl: float) -> Sequence[bool | None]:
        """Extend leases, by resource with the epochs that their owner knows.

        False for each that it does not own any more, or not at this epoch: what it writes would be refused.
        None for each that is kept where nobody answers, if others are.
        """

    async def release(self, resource: str, owner: str) -> None:
        """Free the lease if `owner` owns it; the epoch stays for the next one to raise."""

    async def remove(self, resource: str) -> None:
        """Forget the lease of a resource that is no more, its epoch too."""

    async def read(self, resources: Sequence[str]) -> list[Lease | None]:
        """The live leases, None for each that is free or expired."""

    async def announce(self, member: Member, ttl: float) -> bool:
        """Make a member known for `ttl` seconds; a newer incarnation replaces older ones of its node.

        Whether it had been deposed: others may have taken its leases.
        """

    async def members(self) -> list[Member]:
        """Members announced and not yet expired, by node id."""

    async def silent(self, ttl: float, since: float) -> list[Member]:
        """Members that announced themselves for `ttl` seconds, and not again in the last `since` seconds."""

    async def depose(self, member: Member, ttl: float, since: float) -> bool:
        """Make a silent member known as gone for `ttl` seconds, unless it was heard of meanwhile."""

    async def withdraw(self, owner: str) -> None:
        """Take back an announcement, if it is still this incarnation's."""

    async def generation(self, name: str, digest: str) -> int:
        """How often what `name` stands for has changed: one more when `digest` is not the last one told."""
