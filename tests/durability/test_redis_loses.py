"""An external Redis loses its last writes in a power failure; the process survives it, or restarts too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis

from tests.durability.append_only import AppendOnlyFile
from tests.durability.scene import Scene, accepted, acquired, published
from tests.support.client import connected, unique
from tests.testkit.brokers import Serve
from tests.testkit.proxy import FaultProxy
from tests.testkit.servers import Server, running
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.xdist_group("durability-redis")

EVERY_SECOND = ("--appendonly", "yes", "--appendfsync", "everysec")


async def test_surviving_process_rewrites_the_lost_records(tmp_path: Path) -> None:
    with running("valkey", *EVERY_SECOND) as server:
        serve, log = Serve(tmp_path, ["--redis", server.url]), AppendOnlyFile(server.directory)
        await asyncio.to_thread(serve.start)
        try:
            async with connected(serve.address) as client:
                scene = await Scene.set(client)
                lost_group = await client.group()
                on_disk = log.size
                await scene.last_second(client)
                lost_topic, _ = await client.create(name=unique("lost"))
                assert await client.acquire_all(lost_group, scene.topic, 5, "early")
                await asyncio.to_thread(_lose, server, on_disk)
                assert await published(client, scene.topic, "f") == 5
                # c stays locked, b accepted: the leader lives. d and e are in the log again.
                assert await acquired(client, scene.group_id, scene.topic, 3) == {"d": 3, "e": 4, "f": 5}
                await accepted(client, scene.group_id, "early", scene.held[2:])
                assert await client.finished(scene.group_id, scene.topic_id) >= {0, 1, 2}
                # What began in the last second begins again; what was created then can be created again.
                await acquired(client, lost_group, scene.topic, 6)
                await client.create(name=lost_topic)
            await asyncio.to_thread(serve.kill)  # its memory must not hide what is stored
            await asyncio.to_thread(serve.start)
            async with connected(serve.address) as client:
                assert await published(client, scene.topic, "g") == 6
                again = await acquired(client, scene.group_id, scene.topic, 4)
                assert again == {"d": 3, "e": 4, "f": 5, "g": 6}
        finally:
            await asyncio.to_thread(serve.stop)


async def test_idle_process_detects_and_rewrites_the_lost_records(tmp_path: Path) -> None:
    """No record is published after the loss: the leader has to detect it before it ends itself."""
    with running("valkey", *EVERY_SECOND) as server:
        serve, log = Serve(tmp_path, ["--redis", server.url]), AppendOnlyFile(server.directory)
        await asyncio.to_thread(serve.start)
        try:
            async with connected(serve.address) as client:
                scene = await Scene.set(client)
                on_disk = log.size
                await scene.last_second(client)
                await asyncio.to_thread(_lose, server, on_disk)
                with redis.Redis.from_url(server.url) as control:
                    key = f"sharebroker:{{partition:{scene.topic_id}:0}}:log"

                    def ends() -> int:
                        newest = control.xrevrange(key, count=1)
                        return int(newest[0][0].partition(b"-")[0]) if newest else 0

                    await eventually(lambda: ends() == 5, 20.0)
            await asyncio.to_thread(serve.kill)
            await asyncio.to_thread(serve.start)
            async with connected(serve.address) as client:
                # b was accepted in the last second: only b may be redelivered.
                found = await acquired(client, scene.group_id, scene.topic, 4)
                assert found == {"b": 1, "c": 2, "d": 3, "e": 4}
        finally:
            await asyncio.to_thread(serve.stop)


async def test_death_of_process_and_redis_loses_at_most_the_last_second(tmp_path: Path) -> None:
    with running("valkey", *EVERY_SECOND) as server:
        serve, log = Serve(tmp_path, ["--redis", server.url]), AppendOnlyFile(server.directory)
        await asyncio.to_thread(serve.start)
        try:
            async with connected(serve.address) as client:
                scene = await Scene.set(client)
                on_disk = log.size
                await scene.last_second(client)
            await asyncio.to_thread(serve.kill)
            await asyncio.to_thread(_lose, server, on_disk)
            await asyncio.to_thread(serve.start)
            async with connected(serve.address) as client:
                assert await published(client, scene.topic, "after") == 3
                found = await acquired(client, scene.group_id, scene.topic, 3)
                assert found == {"b": 1, "c": 2, "after": 3}
                assert await client.finished(scene.group_id, scene.topic_id) == {0}
        finally:
            await asyncio.to_thread(serve.stop)


def _lose(server: Server, size: int) -> None:
    server.kill()
    AppendOnlyFile(server.directory).cut(size)
    server.restart()


async def test_broken_connections_and_a_slow_redis_lose_nothing(tmp_path: Path) -> None:
    """Neither has an effect beyond the time it takes."""
    with running("valkey", *EVERY_SECOND) as server:
        async with FaultProxy(server.port) as proxy:
            serve = Serve(tmp_path, ["--redis", proxy.url])
            await asyncio.to_thread(serve.start)
            try:
                async with connected(serve.address) as client:
                    scene = await Scene.set(client)
                    proxy.delay = 0.2
                    assert await client.publish(scene.topic, ["d"]) == [(0, 3)]
                    assert await client.acknowledge(scene.group_id, "early", scene.held[1:2]) == [0]
                    proxy.heal()
                    for number in range(4, 14):
                        await proxy.cut()
                        assert await published(client, scene.topic, str(number)) >= number
                    await accepted(client, scene.group_id, "early", scene.held[2:])
                    found = await acquired(client, scene.group_id, scene.topic, 11)
                    assert set(found) == {"d", *map(str, range(4, 14))}
            finally:
                await asyncio.to_thread(serve.stop)
