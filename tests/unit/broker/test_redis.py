"""The connections of a broker to Redis."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker import redis as connections
from sharebroker_server.broker.redis import open_redis
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.process_memory import available_memory
from sharebroker_server.redis_link.memory import default_limit
from tests.testkit.servers import free_port, running
from tests.testkit.waiting import eventually


async def test_writes_that_wait_for_replicas_have_their_own_link() -> None:
    with running("valkey") as server:
        url = f"redis://127.0.0.1:{server.port}"
        async with AsyncExitStack() as stack:
            both = await open_redis(ServeSettings(redis=url, config=BrokerConfig.parse(())), stack)
            assert both.by_purpose == {"all": both.writes}
            waiting = ServeSettings(redis=url, config=BrokerConfig.parse(["redis.wait.replicas=1"]))
            separate = await open_redis(waiting, stack)
            assert separate.by_purpose == {"reads": separate.reads, "writes": separate.writes}
            assert separate.reads is not separate.writes


async def test_the_embedded_valkey_has_no_replicas(tmp_path: Path) -> None:
    settings = ServeSettings(data=tmp_path, config=BrokerConfig.parse(["redis.wait.replicas=1"]))
    async with AsyncExitStack() as stack:
        with pytest.raises(KafkaError, match=r"redis\.wait\.replicas needs --redis"):
            await open_redis(settings, stack)


async def test_a_memory_limit_is_for_the_embedded_valkey_only() -> None:
    settings = ServeSettings(redis="redis://127.0.0.1:1", max_memory=1 << 30, config=BrokerConfig.parse(()))
    async with AsyncExitStack() as stack:
        with pytest.raises(KafkaError, match=r"--max-memory limits the embedded Valkey"):
            await open_redis(settings, stack)


@pytest.mark.parametrize("limit", [1 << 26, 0])
async def test_memory_of_the_embedded_valkey_is_limited_and_measured(tmp_path: Path, limit: int) -> None:
    settings = ServeSettings(data=tmp_path, max_memory=limit, config=BrokerConfig.parse(()))
    async with AsyncExitStack() as stack:
        redis = await open_redis(settings, stack)
        _, configured = await redis.reads.call("CONFIG", "GET", "maxmemory", timeout=5.0)
        assert int(configured) == limit

        def metrics() -> dict[str, float]:
            return {family.name: sum(s.value for s in family.samples) for family in redis.families()}

        assert metrics()["sharebroker_embedded_memory_limit_bytes"] == limit
        await eventually(lambda: metrics()["sharebroker_embedded_memory_bytes"] > 500_000)


async def test_memory_of_the_embedded_valkey_is_limited_by_default(tmp_path: Path) -> None:
    settings = ServeSettings(data=tmp_path, config=BrokerConfig.parse(()))
    async with AsyncExitStack() as stack:
        redis = await open_redis(settings, stack)
        _, configured = await redis.reads.call("CONFIG", "GET", "maxmemory", timeout=5.0)
        assert int(configured) == default_limit(available_memory())


async def test_an_unreachable_redis_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECT_TIMEOUT", 0.1)
    settings = ServeSettings(redis=f"redis://127.0.0.1:{free_port()}", config=BrokerConfig.parse(()))
    async with AsyncExitStack() as stack:
        with pytest.raises(KafkaError, match="INVALID_CONFIG: no Redis at"):
            await open_redis(settings, stack)
