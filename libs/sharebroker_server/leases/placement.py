"""Placement: which member should own each resource, by rendezvous hashing over the live members.

All members compute the same result from the same members, and cache it until the members change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from sharebroker_server.leases.names import (
    COORDINATORS,
    PARTITION,
    ROLE_BY_KIND,
    kind_of,
    partitions,
    topic_partition,
)
from sharebroker_server.leases.port import ClusterMember


def succeeds(owner: str, earlier: str) -> bool:
    """Returns whether `owner` is a later incarnation of the node of `earlier` ("node id/incarnation")."""
    node, _, incarnation = owner.partition("/")
    earlier_node, _, earlier_incarnation = earlier.partition("/")
    return node == earlier_node and int(incarnation) > int(earlier_incarnation)


def preferred(resource: str, role: str, members: Iterable[ClusterMember]) -> ClusterMember | None:
    """Returns the member that should own a resource, by rendezvous hashing over the members of the role.

    Leaving members are excluded. When a member joins or leaves, only the resources it gains or had change
    owner. During an import no member should own a coordinator's shard.
    """
    candidates, name = _candidates(role, members), resource.encode()
    return max(candidates, key=lambda member: (_weight(name, _suffix(member)), member.node_id), default=None)


def spread(resources: Sequence[str], role: str, members: Iterable[ClusterMember]) -> dict[str, ClusterMember]:
    """Returns the member that should own each resource of a kind: as `preferred`, with equal shares.

    With plain hashing, one of three members may own 1.5 times as many shards as another; here the shares
    differ by at most one. All members compute the same result from the same members and resources. When a
    member joins or leaves, a few percent of the other members' resources move as well.
    """
    candidates = _candidates(role, members)
    if len(candidates) < 2:
        return dict.fromkeys(resources, candidates[0]) if candidates else {}
    owned = dict.fromkeys((member.node_id for member in candidates), 0)
    most, extra = divmod(len(resources), len(candidates))
    places = [(_suffix(member), member.node_id, member) for member in candidates]
    open_ = _open(places, owned, most + (extra > 0))
    result = {}
    for resource in resources:
        name, weight, node_id, chosen = resource.encode(), b"", -1, candidates[0]
        for suffix, other_id, member in open_:
            other = _weight(name, suffix)
            if (other, other_id) > (weight, node_id):
                weight, node_id, chosen = other, other_id, member
        owned[node_id] += 1
        result[resource] = chosen
        if owned[node_id] >= most:
            extra -= owned[node_id] == most + 1
            open_ = _open(places, owned, most + (extra > 0))
    return result


_Place = tuple[bytes, int, ClusterMember]
"""A member after its suffix and its node id."""


def _open(places: list[_Place], owned: Mapping[int, int], full: int) -> list[_Place]:
    """Returns the members that own less than `full` resources."""
    return [place for place in places if owned[place[1]] < full]


def _candidates(role: str, members: Iterable[ClusterMember]) -> list[ClusterMember]:
    listed = [*members]
    if role in COORDINATORS and any(member.is_importing for member in listed):
        return []
    return [member for member in listed if role in member.roles and not member.is_leaving]


def _suffix(member: ClusterMember) -> bytes:
    return f"@{member.node_id}".encode()


def _weight(name: bytes, suffix: bytes) -> bytes:
    return blake2b(name + suffix, digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of resources with the role that owns it; `resources` lists those to own at all times.

    The callbacks belong to the code that works with the resources.
    """

    resources: Callable[[], Iterable[str]]
    role: str
    on_acquired: Callable[[str, int], Awaitable[None]]
    on_lost: Callable[[str], Awaitable[None]]


class Placement:
    """The preferred owner of each resource, by rendezvous hashing over the live members.

    `partitions` returns the number of partitions of a topic id, or 0 for an unknown topic. Partitions of a
    known topic and the resources that a kind lists are spread evenly; any other resource is placed by its own
    hash.
    """

    def __init__(
        self,
        me: str,
        kinds: Mapping[str, ResourceKind],
        partitions: Callable[[str], int],
    ) -> None:
        self._me = me
        self._members: Mapping[str, ClusterMember] = {}
        self._kinds = kinds
        self._partitions = partitions
        self._cache: dict[str, tuple[int, ClusterMember | None]] = {}

    def update(self, members: Mapping[str, ClusterMember]) -> None:
        """Replaces the live members, given by owner name."""
        self._members = members
        self._cache.clear()

    def is_ours(self, resource: str) -> bool:
        """Returns whether `me` should own the resource."""
        owner = self.owner(resource) if kind_of(resource) in self._kinds else None
        return owner is not None and owner.owner == self._me

    def owner(self, resource: str) -> ClusterMember | None:
        """Returns the member that should own a resource; None if no live member has the role."""
        kind = kind_of(resource)
        topic_id = topic_partition(resource)[0] if kind == PARTITION else ""
        size = self._partitions(topic_id) if topic_id else 0
        cached = self._cache.get(resource)
        if cached is None or cached[0] != size:
            self._place(resource, topic_id, size)
        return self._cache[resource][1]

    def _place(self, resource: str, topic_id: str, size: int) -> None:
        registered, members = self._kinds.get(kind_of(resource)), self._members.values()
        role = registered.role if registered is not None else ROLE_BY_KIND.get(kind_of(resource), "")
        listed = sorted(registered.resources()) if registered is not None else []
        owners = spread(partitions(topic_id, size) if size else listed, role, members)
        self._cache |= {each: (size, member) for each, member in owners.items()}
        if resource not in owners:
            self._cache[resource] = size, preferred(resource, role, members)
