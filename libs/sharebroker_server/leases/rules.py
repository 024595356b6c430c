"""Pure rules of ownership: which claim succeeds, and which member should own a resource.

Time is an argument, in seconds of the caller's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from sharebroker_server.leases.port import Member


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


def succeeds(owner: str, earlier: str) -> bool:
    """Returns whether `owner` is a later incarnation of the node of `earlier` ("node id/incarnation")."""
    node, _, incarnation = owner.partition("/")
    earlier_node, _, earlier_incarnation = earlier.partition("/")
    return node == earlier_node and int(incarnation) > int(earlier_incarnation)


def claimed(lease: StoredLease, owner: str, now: float, ttl: float, *, force: bool = False) -> StoredLease:
    """Returns the lease after a claim by `owner` at `now`: unchanged if another owner holds it."""
    if not lease.live(now) or succeeds(owner, lease.owner):
        return StoredLease(owner, lease.epoch + 1, now + ttl)
    if lease.owner == owner:
        return StoredLease(owner, lease.epoch + force, now + ttl)
    return lease


def preferred(resource: str, role: str, members: Iterable[Member]) -> Member | None:
    """Returns the member that should own a resource, by rendezvous hashing over the members of the role.

    Leaving members are excluded. When a member joins or leaves, only the resources it gains or had change
    owner.
    """
    candidates = [member for member in members if role in member.roles and not member.is_leaving]
    return max(
        candidates, key=lambda member: (_weight(resource, member.node_id), member.node_id), default=None
    )


def spread(resources: Sequence[str], role: str, members: Iterable[Member]) -> dict[str, Member]:
    """Returns the member that should own each resource of a kind: as `preferred`, with equal shares.

    With plain hashing, one of three members may own 1.5 times as many shards as another; here the shares
    differ by at most one. All members compute the same result from the same members and resources. When a
    member joins or leaves, a few percent of the other members' resources move as well.
    """
    candidates = [member for member in members if role in member.roles and not member.is_leaving]
    if not candidates:
        return {}
    owned = dict.fromkeys((member.node_id for member in candidates), 0)
    most, extra = divmod(len(resources), len(candidates))
    result = {}
    for resource in resources:
        full = most if extra == 0 else most + 1
        open_ = [member for member in candidates if owned[member.node_id] < full]
        chosen = max(open_, key=lambda member: (_weight(resource, member.node_id), member.node_id))
        owned[chosen.node_id] += 1
        extra -= owned[chosen.node_id] == most + 1
        result[resource] = chosen
    return result


def _weight(resource: str, node_id: int) -> bytes:
    return blake2b(f"{resource}@{node_id}".encode(), digest_size=8).digest()
