"""Cluster: lease holders that share a store and a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.membership import FailureDetector
from sharebroker_server.leases.placement import spread
from sharebroker_server.leases.port import ClusterMember
from tests.testkit.memory.leases import MemoryLeaseStore

ROLE = "share-coordinator"
SHARDS = [f"{ROLE}:{index}" for index in range(20)]
TTL = 10.0


def share(members: list[ClusterMember]) -> dict[str, ClusterMember]:
    """Returns the preferred owner of each shard."""
    return spread(sorted(SHARDS), ROLE, members)


class Cluster:
    """A store and a clock that all nodes of a test share."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.store = MemoryLeaseStore(lambda: self.now)
        self.nodes: list[Node] = []
        self.refusing: set[str] = set()

    async def is_refused(self, address: str) -> bool:
        return address in self.refusing

    def node(self, node_id: int, incarnation: int = 1, resources: Iterable[str] = SHARDS) -> Node:
        node = Node(self, node_id, incarnation, list(resources))
        self.nodes.append(node)
        return node

    async def pass_time(self, seconds: float, *nodes: Node) -> None:
        """Advances the clock in steps of a second; the given nodes run a round each."""
        for _ in range(round(seconds)):
            self.now += 1.0
            for node in nodes:
                await node.round()


class Node:
    """A broker: its holder, and the callbacks that the holder made."""

    def __init__(self, cluster: Cluster, node_id: int, incarnation: int, resources: list[str]) -> None:
        self.member = ClusterMember(
            f"{node_id}/{incarnation}", node_id, frozenset({ROLE}), f"node{node_id}:9090"
        )
        detector = FailureDetector(cluster.store, TTL, cluster.is_refused)
        self.holder = LeaseHolder(
            cluster.store, self.member, TTL, clock=lambda: cluster.now, failure_detector=detector
        )
        self.owned: dict[str, int] = {}
        self.events: list[tuple[str, str]] = []
        self.resources = resources
        self.fail_to_open = False
        self.closing = asyncio.Event()
        self.closing.set()
        self.holder.register(ROLE, lambda: self.resources, ROLE, self.acquired, self.lost)

    async def acquired(self, resource: str, epoch: int) -> None:
        if self.fail_to_open:
            raise RuntimeError("cannot open")
        assert resource not in self.owned
        self.owned[resource] = epoch
        self.events.append(("acquired", resource))

    async def lost(self, resource: str) -> None:
        await self.closing.wait()
        del self.owned[resource]
        self.events.append(("lost", resource))

    async def round(self) -> None:
        """Runs one round of the loop and everything it starts."""
        await self.holder._try_reconcile()
        if self.holder.membership.detection is not None:
            await self.holder.membership.detection
        if self.closing.is_set():
            await self.holder._executor.drain()

    def held(self) -> set[str]:
        return {resource for resource in SHARDS if self.holder.holds(resource) is not None}
