"""Placement:

which member should own each resource, computed from the members and cached until they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sharebroker_server.leases.membership import Membership
from sharebroker_server.leases.names import PARTITION, ROLES, kind_of, partitions, topic_partition
from sharebroker_server.leases.port import Member
from sharebroker_server.leases.rules import preferred, spread


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind of resources with the role that owns it; `resources` lists those to own at all times."""

    resources: Callable[[], Iterable[str]]
    role: str


class Placement:
    """The preferred owner of each resource, by rendezvous hashing over the live members.

    `partitions` returns the number of partitions of a topic id, or 0 for an unknown topic. Partitions of a
    known topic and the resources that a kind lists are spread evenly; any other resource is placed by its own
    hash.
    """

    def __init__(
        self,
        membership: Membership,
        kinds: Mapping[str, ResourceKind],
        partitions: Callable[[str], int],
    ) -> None:
        self._membership = membership
        self._kinds = kinds
        self._partitions = partitions
        self._cache: dict[str, tuple[int, Member | None]] = {}

    def clear(self) -> None:
        """Drops the cache; call it when the members changed."""
        self._cache.clear()

    def is_ours(self, resource: str) -> bool:
        """Returns whether this member should own the resource. A leaving member should own nothing."""
        if self._membership.leaving or kind_of(resource) not in self._kinds:
            return False
        owner = self.owner(resource)
        return owner is not None and owner.owner == self._membership.me.owner

    def owner(self, resource: str) -> Member | None:
        """Returns the member that should own a resource; None if no live member has the role."""
        kind = kind_of(resource)
        topic_id = topic_partition(resource)[0] if kind == PARTITION else ""
        size = self._partitions(topic_id) if topic_id else 0
        cached = self._cache.get(resource)
        if cached is None or cached[0] != size:
            self._place(resource, topic_id, size)
        return self._cache[resource][1]

    def _place(self, resource: str, topic_id: str, size: int) -> None:
        registered, members = self._kinds.get(kind_of(resource)), self._membership.by_owner.values()
        role = registered.role if registered is not None else ROLES.get(kind_of(resource), "")
        listed = sorted(registered.resources()) if registered is not None else []
        owners = spread(partitions(topic_id, size) if size else listed, role, members)
        self._cache |= {each: (size, member) for each, member in owners.items()}
        if resource not in owners:
            self._cache[resource] = size, preferred(resource, role, members)
