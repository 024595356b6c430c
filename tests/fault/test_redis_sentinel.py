"""The primary dies under a running process, and sentinels promote its replica."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharebroker_server.broker.commands.cluster_examination import examine
from sharebroker_server.broker.core.diagnosis import Level
from sharebroker_server.config.broker import BrokerConfig
from tests.durability.scene import Scene, acquired, published
from tests.support.client import connected
from tests.testkit.brokers import Serve
from tests.testkit.sentinels import monitored
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.xdist_group("redis-sentinel")

DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0")
WAIT = ("--set", "redis.wait.replicas=1", "--set", "redis.wait.timeout.ms=1000")


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_acknowledged_writes_survive_the_loss_of_the_primary(tmp_path: Path) -> None:
    with monitored("valkey", *DURABLE) as servers:
        serve = Serve(tmp_path, ["--redis", servers.url, *WAIT])
        await asyncio.to_thread(serve.start)
        try:
            async with connected(serve.address) as client:
                assert await errors(servers.url) == []
                scene = await Scene.set(client)
                await scene.last_second(client)
                victim = servers.primary()
                victim.kill()
                await eventually(lambda: servers.primary() is not victim, 90.0)
                await asyncio.to_thread(victim.restart)  # sentinels make it the replica that WAIT needs
                await eventually(lambda: asyncio.to_thread(servers.in_sync), 90.0)
                assert await published(client, scene.topic, "after") >= 5
                found = await acquired(client, scene.group_id, scene.topic, 4)
                assert found.pop("after") >= 5
                assert found == {"c": 2, "d": 3, "e": 4}
                assert await client.finished(scene.group_id, scene.topic_id) == {0, 1}
        finally:
            await asyncio.to_thread(serve.stop)


async def errors(url: str) -> list[str]:
    """Returns the errors that `sharebroker doctor` reports."""
    findings = await examine(url, BrokerConfig.parse(()))
    return [finding.what for finding in findings if finding.level is Level.ERROR]
