"""Backups of a Redis or Valkey of one's own as docs/operations.md describes them, and their restore."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from tests.durability.scene import Scene, acquired
from tests.support.client import connected
from tests.testkit.brokers import Serve
from tests.testkit.redis_cluster import RedisCluster, redis_cluster
from tests.testkit.servers import Server, binaries, free_port, running
from tests.testkit.waiting import until

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
START_SECONDS = 60.0


@pytest.fixture(params=sorted(binaries()))
def primary(request: pytest.FixtureRequest) -> Iterator[tuple[str, Server]]:
    with running(request.param, *DURABLE) as server:
        yield request.param, server


@contextmanager
def serving(folder: Path, url: str) -> Iterator[Serve]:
    """Runs a broker with a Redis."""
    serve = Serve(folder, ["--redis", url], f"broker-{url.rpartition(':')[2]}")
    serve.start()
    try:
        yield serve
    finally:
        serve.stop()


async def left_over(folder: Path, url: str, scene: Scene) -> None:
    """Checks a restored cluster: a was accepted and does not arrive again, b and c do."""
    with serving(folder, url) as serve:
        async with connected(serve.address) as client:
            assert await acquired(client, scene.group_id, scene.topic, 2) == {"b": 1, "c": 2}
            assert 0 in await client.finished(scene.group_id, scene.topic_id)


async def test_a_stopped_replica_with_its_append_only_file_is_a_backup(
    primary: tuple[str, Server], tmp_path: Path
) -> None:
    kind, server = primary
    with serving(tmp_path, server.url) as serve:
        async with connected(serve.address) as client:
            scene = await Scene.set(client)
        with running(kind, *DURABLE, "--replicaof", f"127.0.0.1 {server.port}") as replica:
            with redis.Redis.from_url(replica.url) as connection:
                until(lambda: connection.info("replication")["master_link_status"] == "up", START_SECONDS)
                until(lambda: not connection.info("persistence")["aof_rewrite_in_progress"], START_SECONDS)
                connection.shutdown()
            replica.process.wait()
            shutil.copytree(replica.directory / "appendonlydir", tmp_path / "backup" / "appendonlydir")
    with running(kind, *DURABLE, "--dir", str(tmp_path / "backup")) as restored:
        await left_over(tmp_path, restored.url, scene)


async def test_a_snapshot_is_loaded_without_append_only_file_and_then_gets_one(
    primary: tuple[str, Server], tmp_path: Path
) -> None:
    kind, server = primary
    with serving(tmp_path, server.url) as serve:
        async with connected(serve.address) as client:
            scene = await Scene.set(client)
        with redis.Redis.from_url(server.url) as connection:
            before = connection.lastsave()
            until(lambda: connection.time()[0] > before.timestamp(), START_SECONDS)  # a save has a new second
            connection.bgsave()
            until(lambda: connection.lastsave() > before, START_SECONDS)
        (tmp_path / "backup").mkdir()
        shutil.copy(server.directory / "dump.rdb", tmp_path / "backup")
    with running(kind, "--dir", str(tmp_path / "backup")) as loaded:
        with redis.Redis.from_url(loaded.url) as connection:
            connection.config_set("appendonly", "yes")
            until((tmp_path / "backup/appendonlydir/appendonly.aof.manifest").exists, START_SECONDS)
            until(lambda: not rewriting(connection), START_SECONDS)
            connection.shutdown()
        loaded.process.wait()
    with running(kind, *DURABLE, "--dir", str(tmp_path / "backup")) as restored:
        await left_over(tmp_path, restored.url, scene)


def rewriting(connection: redis.Redis) -> bool:
    found = connection.info("persistence")
    return bool(found["aof_rewrite_in_progress"] or found["aof_rewrite_scheduled"])


NODE = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", *DURABLE)


async def test_a_redis_cluster_is_restored_from_the_folders_of_its_primaries(tmp_path: Path) -> None:
    with redis_cluster("valkey", 3, 0, *DURABLE) as cluster:
        with serving(tmp_path, cluster.url) as serve:
            async with connected(serve.address) as client:
                scene = await Scene.set(client)
        # The brokers have stopped: now the nodes agree with each other.
        for number, node in enumerate(cluster.nodes):
            copy = tmp_path / f"node-{number}"
            shutil.copytree(node.directory / "appendonlydir", copy / "appendonlydir")
            shutil.copy(node.directory / "nodes.conf", copy)
    with ExitStack() as stack:
        bus = [free_port() for _ in cluster.nodes]
        nodes = [
            stack.enter_context(
                running(
                    "valkey", *NODE, "--cluster-port", str(port), "--dir", str(tmp_path / f"node-{number}")
                )
            )
            for number, port in enumerate(bus)
        ]
        restored = RedisCluster(nodes)
        for node, port in zip(nodes[1:], bus[1:], strict=True):
            restored.execute(0, "CLUSTER", "MEET", "127.0.0.1", node.port, port)
        until(lambda: all(complete(restored, number) for number in range(len(nodes))), START_SECONDS)
        await left_over(tmp_path, restored.url, scene)


def complete(cluster: RedisCluster, number: int) -> bool:
    """Returns whether a node reaches all slots at the new addresses."""
    facts: dict[str, str] = cluster.execute(number, "CLUSTER INFO")
    ports = {node[1] for _, _, node, *_ in cluster.execute(number, "CLUSTER SLOTS")}
    return facts["cluster_state"] == "ok" and ports == {node.port for node in cluster.nodes}
