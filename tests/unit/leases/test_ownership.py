"""LeaseOwnership: one lease of a holder."""

from __future__ import annotations

from sharebroker_server.leases.ownership import LeaseOwnership
from tests.unit.leases.harness import SHARDS, Cluster


async def test_ownership_follows_the_epoch_of_the_lease(cluster: Cluster) -> None:
    node = cluster.node(1)
    await node.round()
    lease = LeaseOwnership(node.holder, SHARDS[0])
    assert lease.holds(1)
    assert await lease.reclaim() == 2
    assert (lease.holds(1), lease.holds(2)) == (False, True)
