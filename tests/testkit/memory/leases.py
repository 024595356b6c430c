"""In-memory lease store, for tests and simulation; several holders share one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from typing_extensions import override

from sharebroker_server.leases.placement import succeeds
from sharebroker_server.leases.port import ClusterMember, Lease, LeaseStore, LeasesUnavailable


@dataclass(frozen=True, slots=True)
class StoredLease:
    """A lease in a store; `owner` is "" after a release, `expires_at` is on the store's clock."""

    owner: str
    epoch: int
    expires_at: float

    def live(self, now: float) -> bool:
        """Returns whether it has an owner and has not expired."""
        return bool(self.owner) and self.expires_at > now


FREE = StoredLease("", 0, 0.0)
"""A lease that was never claimed."""


def claimed(lease: StoredLease, owner: str, now: float, ttl: float, *, force: bool = False) -> StoredLease:
    """Returns the lease after a claim by `owner` at `now`: unchanged if another owner holds it."""
    if not lease.live(now) or succeeds(owner, lease.owner):
        return StoredLease(owner, lease.epoch + 1, now + ttl)
    if lease.owner == owner:
        return StoredLease(owner, lease.epoch + force, now + ttl)
    return lease


class MemoryLeaseStore(LeaseStore):
    """Leases in memory. `clock` is in seconds. `away = True` makes every call fail."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.away = False
        self._clock = clock
        self._leases: dict[str, StoredLease] = {}
        self._members: dict[int, tuple[ClusterMember, float]] = {}
        self._generations: dict[str, tuple[str, int]] = {}

    def epoch_of(self, resource: str) -> int:
        """Returns the epoch that a log compares with; 0 for a resource that was never claimed."""
        return self._leases.get(resource, FREE).epoch

    def owner_of(self, resource: str) -> str:
        """Returns the last owner of a lease; "" without one."""
        return self._leases.get(resource, FREE).owner

    @override
    async def claim(self, resource: str, owner: str, ttl: float, *, force: bool = False) -> Lease:
        now = self._now()
        lease = claimed(self._leases.get(resource, FREE), owner, now, ttl, force=force)
        self._leases[resource] = lease
        return Lease(resource, lease.owner, lease.epoch, lease.expires_at - now)

    @override
    async def renew(self, epochs: Mapping[str, int], owner: str, ttl: float) -> list[bool]:
        now = self._now()
        return [
            self._renew(resource, StoredLease(owner, epoch, now + ttl)) for resource, epoch in epochs.items()
        ]

    @override
    async def release(self, resource: str, owner: str) -> None:
        self._now()
        lease = self._leases.get(resource, FREE)
        if lease.owner == owner:
            self._leases[resource] = StoredLease("", lease.epoch, 0.0)

    @override
    async def remove(self, resource: str) -> None:
        self._now()
        self._leases.pop(resource, None)

    @override
    async def read(self, resources: Sequence[str]) -> list[Lease | None]:
        now = self._now()
        leases = [(resource, self._leases.get(resource, FREE)) for resource in resources]
        return [
            Lease(resource, lease.owner, lease.epoch, lease.expires_at - now) if lease.live(now) else None
            for resource, lease in leases
        ]

    @override
    async def announce(self, member: ClusterMember, ttl: float) -> bool:
        now = self._now()
        known, expires_at = self._members.get(member.node_id, (member, now))
        if expires_at <= now or not succeeds(known.owner, member.owner):
            self._members[member.node_id] = (member, now + ttl)
        return expires_at > now and known == member.as_dead()

    @override
    async def members(self) -> list[ClusterMember]:
        now = self._now()
        return [member for _, (member, expires_at) in sorted(self._members.items()) if expires_at > now]

    @override
    async def silent(self, ttl: float, since: float) -> list[ClusterMember]:
        now = self._now()
        remaining = {member.owner: expires_at - now for member, expires_at in self._members.values()}
        return [member for member in await self.members() if remaining[member.owner] <= ttl - since]

    @override
    async def mark_dead(self, member: ClusterMember, ttl: float, since: float) -> bool:
        now = self._now()
        if member.owner not in {silent.owner for silent in await self.silent(ttl, since)}:
            return False
        self._members[member.node_id] = (member.as_dead(), now + ttl)
        return True

    @override
    async def withdraw(self, owner: str) -> None:
        self._now()
        self._members = {node: known for node, known in self._members.items() if known[0].owner != owner}

    @override
    async def generation(self, name: str, digest: str) -> int:
        self._now()
        known, number = self._generations.get(name, ("", 0))
        if known != digest:
            self._generations[name] = (digest, number + 1)
        return self._generations[name][1]

    def _renew(self, resource: str, renewed: StoredLease) -> bool:
        lease = self._leases.get(resource, FREE)
        if (lease.owner, lease.epoch) != (renewed.owner, renewed.epoch):
            return False
        self._leases[resource] = renewed
        return True

    def _now(self) -> float:
        if self.away:
            raise LeasesUnavailable("unavailable on demand")
        return self._clock()
