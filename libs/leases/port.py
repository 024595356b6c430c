"""Leases: what a store of them promises.

A lease belongs to one owner, "node id/incarnation", until it expires by the store's clock. Its epoch only
rises, over releases and expiries too: what carries an older epoch comes from a past owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as it stood when the store answered; `expires_in` in seconds from then."""

    resource: str
    owner: str
    epoch: int
    expires_in: float


@dataclass(frozen=True, slots=True)
class Member:
    """A process of the cluster: `address` is the gRPC host:port others reach it at."""

    owner: str
    node_id: int
    roles: frozenset[str]
    address: str


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

    async def renew(self, resources: Sequence[str], owner: str, ttl: float) -> list[bool]:
        """Extend what `owner` still owns; False for each lease that it does not own any more."""

    async def release(self, resource: str, owner: str) -> None:
        """Free the lease if `owner` owns it; the epoch stays for the next one to raise."""

    async def remove(self, resource: str) -> None:
        """Forget the lease of a resource that is no more, its epoch too."""

    async def read(self, resources: Sequence[str]) -> list[Lease | None]:
        """The live leases, None for each that is free or expired."""

    async def announce(self, member: Member, ttl: float) -> None:
        """Make a member known for `ttl` seconds; a newer incarnation replaces older ones of its node."""

    async def members(self) -> list[Member]:
        """Members announced and not yet expired, by node id."""

    async def withdraw(self, owner: str) -> None:
        """Take back an announcement, if it is still this incarnation's."""
