"""The link to a Redis Cluster: commands reach the node of their slot, also after it moves."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator

import pytest

from sharebroker_server.redis_link.cluster import ClusterLink, slot_of
from sharebroker_server.redis_link.links import connect
from sharebroker_server.redis_link.port import Link, RedisError, RedisRefused, RedisUnavailable, within
from tests.testkit.redis_cluster import RedisCluster, redis_cluster
from tests.testkit.servers import binaries, free_port, running
from tests.testkit.waiting import eventually, until

pytestmark = pytest.mark.xdist_group("redis-cluster")

NAMES = [f"name-{number}" for number in range(30)]
DEATHS = [(kind, signal.SIGKILL) for kind in sorted(binaries())]
COUNT = "#!lua\nreturn redis.call('INCR', KEYS[1])"


@pytest.fixture(scope="module", params=sorted(binaries()))
def cluster(request: pytest.FixtureRequest) -> Iterator[RedisCluster]:
    with redis_cluster(request.param, 3, 0) as cluster:
        yield cluster


@pytest.fixture
async def link(cluster: RedisCluster) -> AsyncIterator[Link]:
    link = await connect(cluster.url, timeout=30.0)
    cluster.flush()
    yield link
    await link.close()


async def counted(link: Link, key: str) -> int | None:
    """Returns the next number, or None while Redis is unavailable."""
    try:
        return int(await link.call("INCR", key, timeout=1.0))
    except RedisRefused:
        raise
    except RedisError:
        return None


async def test_every_command_finds_the_node_of_its_key(cluster: RedisCluster, link: Link) -> None:
    assert isinstance(link, ClusterLink)
    assert len(link.nodes) == 3
    script = link.script(COUNT)
    for name in NAMES:
        assert await link.call("SET", name, 1, timeout=5.0) == b"OK"
        assert await within(5.0, script.send([name], [])) == 2
    assert sum([await node.call("DBSIZE", timeout=5.0) for node in link.nodes]) == len(NAMES)
    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        await link.call("LPUSH", NAMES[0], 1, timeout=5.0)
    assert link.server_incarnation == 0


async def test_commands_follow_a_moved_slot(cluster: RedisCluster, link: Link) -> None:
    renewed: list[int] = []
    link.on_new_server.append(lambda: renewed.append(link.server_incarnation))
    key = NAMES[0]
    await link.call("SET", key, 1, timeout=5.0)
    old = cluster.primary_of(key)
    new = next(number for number in range(3) if number != old)
    slot, ids = slot_of(key), [cluster.execute(number, "CLUSTER", "MYID").decode() for number in range(3)]
    cluster.execute(new, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[old])
    cluster.execute(old, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[new])
    cluster.execute(old, "MIGRATE", "127.0.0.1", cluster.nodes[new].port, key, 0, 5000)
    with pytest.raises(RedisUnavailable, match="is changing: ASK"):
        await link.call("GET", key, timeout=5.0)
    cluster.move(key, new)

    async def found() -> bool:
        return await counted(link, key) is not None

    await eventually(found, 30.0)
    assert await counted(link, key) == 3
    await eventually(lambda: renewed and renewed[0] == link.server_incarnation > 0)


@pytest.mark.parametrize(("kind", "how"), [*DEATHS, ("valkey", signal.SIGSTOP)])
async def test_commands_follow_a_promoted_replica(kind: str, how: signal.Signals) -> None:
    with redis_cluster(kind, 3, 1) as cluster:
        link = await connect(cluster.url, timeout=30.0)
        try:
            await _taken_over(cluster, link, how)
        finally:
            await link.close()


async def _taken_over(cluster: RedisCluster, link: Link, how: signal.Signals) -> None:
    key = next(name for name in NAMES if cluster.primary_of(name) == 0)  # the one that has a replica
    elsewhere = next(name for name in NAMES if cluster.primary_of(name) == 1)
    assert await counted(link, key) == 1
    until(lambda: cluster.in_sync(0))
    cluster.nodes[0].process.send_signal(how)
    try:
        got: list[int] = []

        async def taken_over() -> bool:
            number = await counted(link, key)
            got.extend([number] if number is not None else [])
            return bool(got)

        await eventually(taken_over, 60.0)
        assert got[0] >= 2
        await eventually(lambda: link.connected, 30.0)
        assert link.server_incarnation > 0

        async def served_elsewhere() -> bool:
            return await counted(link, elsewhere) is not None

        # Another primary replies CLUSTERDOWN until it has received the promotion, as the link has.
        await eventually(served_elsewhere, 30.0)
    finally:
        cluster.nodes[0].process.send_signal(signal.SIGCONT)


async def test_any_seed_node_suffices(cluster: RedisCluster) -> None:
    ports = [free_port(), *(node.port for node in cluster.nodes)]
    link = await connect("redis://" + ",".join(f"127.0.0.1:{port}" for port in ports), timeout=30.0)
    assert await counted(link, "several") == 1
    await link.close()
    with pytest.raises(RedisUnavailable):
        await link.call("GET", "several", timeout=1.0)


async def test_unreachable_cluster_is_reported() -> None:
    nowhere = free_port(), free_port()
    with pytest.raises(RedisUnavailable, match=r"no Redis Cluster at 127\.0\.0\.1:"):
        await connect(f"redis://127.0.0.1:{nowhere[0]},127.0.0.1:{nowhere[1]}", timeout=0.5)
    options = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with (
        running("valkey", *options) as server,  # it has no slots: its cluster is down
        pytest.raises(RedisUnavailable, match="reports that the cluster is down"),
    ):
        await connect(server.url, timeout=1.0)
    with (
        running("valkey", *options, "--requirepass", "right") as server,
        pytest.raises(RedisRefused, match="WRONGPASS"),
    ):
        await connect(server.url.replace("//", "//:wrong@") + f",127.0.0.1:{free_port()}", timeout=5.0)
