"""Rules of ownership: who may take a lease, who should have it, what to do next. Pure.

Time is an argument, in seconds of whatever clock the caller keeps. May not know: stores, tasks, clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from sharebroker_server.leases.port import Member


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as a store keeps it; `owner` is "" when released, `expires_at` is on the store's clock."""

    owner: str
    epoch: int
    expires_at: float

    def live(self, now: float) -> bool:
        """Whether it has an owner and has not expired."""
        return bool(self.owner) and self.expires_at > now


FREE = Held("", 0, 0.0)
"""A lease nobody ever had."""


def succeeds(owner: str, earlier: str) -> bool:
    """Whether `owner` is a later incarnation of the node of `earlier` (owners are "node id/incarnation")."""
    node, _, incarnation = owner.partition("/")
    earlier_node, _, earlier_incarnation = earlier.partition("/")
    return node == earlier_node and int(incarnation) > int(earlier_incarnation)


def claimed(lease: Held, owner: str, now: float, ttl: float, *, force: bool = False) -> Held:
    """The lease after `owner` claimed it at `now`: unchanged when another owner has it."""
    if not lease.live(now) or succeeds(owner, lease.owner):
        return Held(owner, lease.epoch + 1, now + ttl)
    if lease.owner == owner:
        return Held(owner, lease.epoch + force, now + ttl)
    return lease


def preferred(resource: str, role: str, members: Iterable[Member]) -> Member | None:
    """The member that should own a resource: rendezvous hashing over those of the role that stay.

    When a member comes or goes, only the resources it gains or had change their owner.
    """
    candidates = [member for member in members if role in member.roles and not member.leaving]
    return max(
        candidates, key=lambda member: (_weight(resource, member.node_id), member.node_id), default=None
    )


def spread(resources: Sequence[str], role: str, members: Iterable[Member]) -> dict[str, Member]:
    """Who should own each resource of a kind: as `preferred`, but nobody gets more than its share.

    Hashing alone gives one of three processes half as many shards again as another; here none has more than
    one above the rest. It takes the same members and the same resources to come to the same end. When a
    member comes or goes, a few in a hundred of the others' resources move as well.
    """
    candidates = [member for member in members if role in member.roles and not member.leaving]
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
