"""The lease store's memory twin: one object stands for the store that several holders share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from sharebroker_server.leases.port import Lease, LeasesUnavailable, Member
from sharebroker_server.leases.rules import FREE, Held, claimed, succeeds


class MemoryLeaseStore:
    """Leases in memory, on the given clock (seconds). `away = True` makes every call fail."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.away = False
        self._clock = clock
        self._leases: dict[str, Held] = {}
        self._members: dict[int, tuple[Member, float]] = {}
        self._generations: dict[str, tuple[str, int]] = {}

    def epoch_of(self, resource: str) -> int:
        """The epoch a log compares with; 0 when the resource was never claimed."""
        return self._leases.get(resource, FREE).epoch

    async def claim(self, resource: str, owner: str, ttl: float, *, force: bool = False) -> Lease:
        """As the port says."""
        now = self._now()
        lease = claimed(self._leases.get(resource, FREE), owner, now, ttl, force=force)
        self._leases[resource] = lease
        return Lease(resource, lease.owner, lease.epoch, lease.expires_at - now)

    async def renew(self, epochs: Mapping[str, int], owner: str, ttl: float) -> list[bool]:
        """As the port says."""
        now = self._now()
        return [self._renew(resource, Held(owner, epoch, now + ttl)) for resource, epoch in epochs.items()]

    async def release(self, resource: str, owner: str) -> None:
        """As the port says."""
        self._now()
        lease = self._leases.get(resource, FREE)
        if lease.owner == owner:
            self._leases[resource] = Held("", lease.epoch, 0.0)

    async def remove(self, resource: str) -> None:
        """As the port says."""
        self._now()
        self._leases.pop(resource, None)

    async def read(self, resources: Sequence[str]) -> list[Lease | None]:
        """As the port says."""
        now = self._now()
        leases = [(resource, self._leases.get(resource, FREE)) for resource in resources]
        return [
            Lease(resource, lease.owner, lease.epoch, lease.expires_at - now) if lease.live(now) else None
            for resource, lease in leases
        ]

    async def announce(self, member: Member, ttl: float) -> bool:
        """As the port says."""
        now = self._now()
        known, expires_at = self._members.get(member.node_id, (member, now))
        if expires_at <= now or not succeeds(known.owner, member.owner):
            self._members[member.node_id] = (member, now + ttl)
        return expires_at > now and known == member.left()

    async def members(self) -> list[Member]:
        """As the port says."""
        now = self._now()
        return [member for _, (member, expires_at) in sorted(self._members.items()) if expires_at > now]

    async def silent(self, ttl: float, since: float) -> list[Member]:
        """As the port says."""
        now = self._now()
        left = {member.owner: expires_at - now for member, expires_at in self._members.values()}
        return [member for member in await self.members() if left[member.owner] <= ttl - since]

    async def depose(self, member: Member, ttl: float, since: float) -> bool:
        """As the port says."""
        now = self._now()
        if member.owner not in {silent.owner for silent in await self.silent(ttl, since)}:
            return False
        self._members[member.node_id] = (member.left(), now + ttl)
        return True

    async def withdraw(self, owner: str) -> None:
        """As the port says."""
        self._now()
        self._members = {node: known for node, known in self._members.items() if known[0].owner != owner}

    async def generation(self, name: str, digest: str) -> int:
        """As the port says."""
        self._now()
        known, number = self._generations.get(name, ("", 0))
        if known != digest:
            self._generations[name] = (digest, number + 1)
        return self._generations[name][1]

    def _renew(self, resource: str, renewed: Held) -> bool:
        lease = self._leases.get(resource, FREE)
        if (lease.owner, lease.epoch) != (renewed.owner, renewed.epoch):
            return False
        self._leases[resource] = renewed
        return True

    def _now(self) -> float:
        if self.away:
            raise LeasesUnavailable("away on demand")
        return self._clock()
