"""Redis is unavailable or full: calls fail in time with a retriable error, then everything recovers
automatically.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest
import redis

from sharebroker_protocol.errors import ErrorCode
from tests.fault.probes import Outcome, Probes
from tests.support.client import ACCEPT, connected
from tests.support.traffic import Traffic
from tests.testkit.brokers import Cluster, four_processes
from tests.testkit.servers import Server

LEASE_SECONDS = 10.0


pytestmark = pytest.mark.xdist_group("fault-redis")  # one cluster for all tests


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with four_processes() as cluster:
        yield cluster


@pytest.fixture
def server(cluster: Cluster) -> Server:
    assert cluster.redis is not None
    return cluster.redis


def failed(outcomes: dict[str, Outcome]) -> set[str]:
    """Returns the calls that failed, and checks that each error is retriable."""
    assert all(outcome.is_success_or_retriable for outcome in outcomes.values()), outcomes
    return {name for name, outcome in outcomes.items() if outcome.code}


async def test_calls_recover_after_redis_is_killed_and_restarted(cluster: Cluster, server: Server) -> None:
    async with connected(cluster.address) as client:
        probes = Probes(client)
        await probes.prepare()
        topic, topic_id = await client.create(4)
        traffic = Traffic(cluster.address, topic, await client.group())
        async with traffic.flowing() as books:
            await asyncio.to_thread(server.kill)
            assert failed(await probes.all()) >= {"publish", "acknowledge", "create", "inspect"}
            await asyncio.to_thread(server.restart)
            await traffic.moves()
            await probes.hold()
            assert failed(await probes.all(timeout=10.0)) == set()
            await traffic.drain(client, topic_id)
        assert not books.broken


async def test_calls_recover_after_redis_hangs_for_longer_than_a_lease(
    cluster: Cluster, server: Server
) -> None:
    async with connected(cluster.address) as client:
        probes = Probes(client)
        await probes.prepare()
        topic, topic_id = await client.create(4)
        traffic = Traffic(cluster.address, topic, await client.group())
        async with traffic.flowing() as books:
            server.process.send_signal(signal.SIGSTOP)
            try:
                assert failed(await probes.all()) >= {"publish", "acknowledge", "create", "inspect"}
                await asyncio.sleep(LEASE_SECONDS)
                assert failed(await probes.all()) >= {"publish", "acquire", "acknowledge", "list groups"}
            finally:
                server.process.send_signal(signal.SIGCONT)
            await traffic.moves()
            await probes.hold()
            assert failed(await probes.all(timeout=10.0)) == set()
            await traffic.drain(client, topic_id)
        assert not books.broken


async def test_full_redis_rejects_writes_and_serves_reads(cluster: Cluster, server: Server) -> None:
    """Only records are rejected, with a clear message; stored records can be consumed, which frees memory."""
    control = redis.Redis.from_url(server.url)
    async with connected(cluster.address) as client:
        probes = Probes(client)
        await probes.prepare()
        topic, topic_id = await client.create()
        group_id = await client.group()
        await client.publish(topic, map(str, range(10)))
        held = await client.acquire_all(group_id, topic, 5, "member")
        control.config_set("maxmemory", 1)
        try:
            outcomes = await probes.all(timeout=10.0)
            assert failed(outcomes) == {"publish"}
            assert outcomes["publish"].code is ErrorCode.KAFKA_STORAGE_ERROR
            assert outcomes["publish"].text.startswith("The store is full, and consuming continues: shorten")
            assert "OOM" in outcomes["publish"].text
            assert await client.acknowledge(group_id, "member", held, ACCEPT) == [0] * 5
            more = await client.acquire_all(group_id, topic, 5, "member")
            assert await client.acknowledge(group_id, "member", more, ACCEPT) == [0] * 5
            assert await client.finished(group_id, topic_id) == set(range(10))
            await client.delete(topic)
        finally:
            control.config_set("maxmemory", 0)
            control.close()
        await probes.hold()
        assert failed(await probes.all(timeout=10.0)) == set()
