"""Holders of several processes on one real store, on the real clock."""

from __future__ import annotations

from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.link import RedisLink
from tests.testkit.proxy import FaultProxy
from tests.testkit.waiting import eventually

ROLE = "share-coordinator"
SHARDS = {f"{ROLE}:{index}" for index in range(20)}
TTL = 0.5


class Node:
    def __init__(self, link: RedisLink, node_id: int) -> None:
        member = ClusterMember(f"{node_id}/1", node_id, frozenset({ROLE}), f"node{node_id}:9090")
        self.owned: dict[str, int] = {}
        self.holder = LeaseHolder(RedisLeaseStore(link, timeout=0.2), member, TTL)
        self.holder.register(ROLE, lambda: SHARDS, ROLE, self.acquired, self.lost)

    async def acquired(self, resource: str, epoch: int) -> None:
        self.owned[resource] = epoch

    async def lost(self, resource: str) -> None:
        del self.owned[resource]


async def test_shards_move_as_brokers_join_and_leave(redis_url: str, redis_link: RedisLink) -> None:
    first = Node(redis_link, 1)
    await first.holder.start()
    assert first.owned == dict.fromkeys(SHARDS, 1)
    async with FaultProxy(int(redis_url.rpartition(":")[2])) as proxy:
        link = await RedisLink.connect(proxy.url)
        second = Node(link, 2)
        await second.holder.start()
        await eventually(lambda: second.owned and set(first.owned) ^ set(second.owned) == SHARDS)
        owners = {shard: await first.holder.owner_of(shard) for shard in SHARDS}
        assert {shard for shard, owner in owners.items() if owner == second.holder.member} == set(
            second.owned
        )

        await proxy.refuse()  # the second process is disconnected: it must stop, the first may take over
        await eventually(lambda: not second.owned and set(first.owned) == SHARDS)
        assert not any(second.holder.holds(shard) for shard in SHARDS)

        await proxy.accept()
        await eventually(lambda: second.owned and set(first.owned) ^ set(second.owned) == SHARDS)
        moved = set(second.owned)
        await second.holder.stop()
        await eventually(lambda: set(first.owned) == SHARDS)
        assert all(
            first.owned[shard] >= 5 for shard in moved
        )  # connected, disconnected, connected, disconnected, connected
        await link.close()
    await first.holder.stop()
    assert first.owned == {}
