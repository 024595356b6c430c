"""Redis fails over to a replica that lacked the last writes: only those are lost."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import redis

from sharebroker_protocol.errors import ErrorCode
from tests.durability.scene import Scene, acquired, published, retriable
from tests.support.client import Client, connected, rejection_of
from tests.testkit.brokers import Serve
from tests.testkit.proxy import FaultProxy
from tests.testkit.servers import Server, running
from tests.testkit.waiting import eventually, until

pytestmark = pytest.mark.xdist_group("fault-replica")

DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0")
WAIT = ("--set", "redis.wait.replicas=1", "--set", "redis.wait.timeout.ms=300")


@dataclass
class Pair:
    """A primary, its replica, and a process that reaches the primary by a name or virtual address."""

    first: Server
    second: Server
    proxy: FaultProxy
    serve: Serve

    def replicated(self) -> None:
        """Waits until the replica has everything written so far; WAIT covers only a connection's own
        writes.
        """
        with redis.Redis.from_url(self.first.url) as connection:
            connection.set("so far", 1)
            until(lambda: connection.execute_command("WAIT", 1, 500) == 1, 30.0)

    def part(self) -> None:
        """Disconnects the replica from the primary; it does not detect that it will take over."""
        with redis.Redis.from_url(self.second.url) as connection:
            connection.execute_command("REPLICAOF", "NO", "ONE")

    async def fail_over(self) -> None:
        """Kills the primary; clients reach the replica from now on."""
        self.first.kill()
        self.part()
        self.proxy.upstream_port = self.second.port
        await self.proxy.cut()

    async def restart(self) -> None:
        """Kills the process, with everything that only its memory held."""
        await asyncio.to_thread(self.serve.kill)
        await asyncio.to_thread(self.serve.start)


@asynccontextmanager
async def pair(tmp_path: Path, *options: str) -> AsyncIterator[Pair]:
    with (
        running("valkey", *DURABLE) as first,
        running("valkey", *DURABLE, "--replicaof", f"127.0.0.1 {first.port}") as second,
    ):
        async with FaultProxy(first.port) as proxy:
            served = Pair(first, second, proxy, Serve(tmp_path, ["--redis", proxy.url, *options]))
            await asyncio.to_thread(served.replicated)
            await asyncio.to_thread(served.serve.start)
            try:
                yield served
            finally:
                await asyncio.to_thread(served.serve.stop)


async def test_unreplicated_write_is_lost_if_the_process_dies_too(tmp_path: Path) -> None:
    async with pair(tmp_path) as served:
        async with connected(served.serve.address) as client:
            scene = await Scene.set(client)
            served.replicated()
            served.part()
            await scene.last_second(client)
            await asyncio.to_thread(served.serve.kill)
            await served.fail_over()
            await asyncio.to_thread(served.serve.start)
        async with connected(served.serve.address) as client:
            assert await published(client, scene.topic, "after") == 3
            assert await acquired(client, scene.group_id, scene.topic, 3) == {"b": 1, "c": 2, "after": 3}
            assert await client.finished(scene.group_id, scene.topic_id) == {0}


async def test_surviving_process_rewrites_records_missing_from_the_new_primary(tmp_path: Path) -> None:
    async with pair(tmp_path) as served:
        async with connected(served.serve.address) as client:
            scene = await Scene.set(client)
            served.replicated()
            served.part()
            await scene.last_second(client)
            await served.fail_over()
            assert await published(client, scene.topic, "after") == 5
            await served.restart()  # its memory must not hide what is stored
        async with connected(served.serve.address) as client:
            found = await acquired(client, scene.group_id, scene.topic, 4)
            found.pop("b", None)  # accepted, but not on the replica: these records alone may be redelivered
            assert found == {"c": 2, "d": 3, "e": 4, "after": 5}


async def test_wait_prevents_loss_of_acknowledged_writes(tmp_path: Path) -> None:
    async with pair(tmp_path, *WAIT) as served, connected(served.serve.address) as client:
        scene = await Scene.set(client)
        await scene.last_second(client)
        served.first.kill()
        await asyncio.to_thread(served.serve.kill)
        await served.fail_over()
        with redis.Redis.from_url(served.second.url) as control:
            control.execute_command("CONFIG", "SET", "appendonly", "yes")
        with running("valkey", *DURABLE, "--replicaof", f"127.0.0.1 {served.second.port}"):
            await asyncio.to_thread(served.serve.start)
            async with connected(served.serve.address) as again:
                assert await published(again, scene.topic, "after") == 5
                found = await acquired(again, scene.group_id, scene.topic, 4)
                assert found == {"c": 2, "d": 3, "e": 4, "after": 5}
                assert await again.finished(scene.group_id, scene.topic_id) == {0, 1}


async def test_wait_rejects_writes_while_the_replica_is_silent(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path, *WAIT) as served, connected(served.serve.address) as client:
        scene = await Scene.set(client)
        served.second.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(grpc.aio.AioRpcError) as silent:
                await client.publish(scene.topic, ["d"], timeout=5.0)
            rejected = rejection_of(silent.value)
            assert rejected.retriable
            assert rejected.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)
            assert (await _acknowledged(client, scene)).retriable
        finally:
            served.second.process.send_signal(signal.SIGCONT)
        await published(client, scene.topic, "after")
        await eventually(lambda: _drained(client, scene, {0, 1, 2}), 60.0)


async def _acknowledged(client: Client, scene: Scene) -> ErrorCode:
    """Returns the result of accepting b; a timeout counts as its own result."""
    try:
        [code] = await client.acknowledge(scene.group_id, "early", scene.held[1:2], timeout=5.0)
    except grpc.aio.AioRpcError:
        return ErrorCode.REQUEST_TIMED_OUT
    return code


async def _drained(client: Client, scene: Scene, goal: set[int]) -> bool:
    """Returns whether these are finished; earlier locks may have to time out."""
    with retriable():
        held = (await client.acquire(scene.group_id, scene.topic, 10, member="late", wait=0.5)).records
        if held:
            await client.acknowledge(scene.group_id, "late", held)
        return goal <= await client.finished(scene.group_id, scene.topic_id)
    return False


async def test_wait_replicas_needs_an_external_redis(tmp_path: Path) -> None:
    serve = Serve(tmp_path, ["--data", str(tmp_path / "data"), *WAIT])
    await asyncio.to_thread(serve.launch)
    assert serve.process is not None
    assert await asyncio.to_thread(serve.process.wait, 30) == 2
    assert "redis.wait.replicas needs --redis" in serve.log
