"""The gRPC port, the embedded Valkey and the node ids of the brokers of one command."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.observability import Observability
from sharebroker_server.broker.processes.shared import Shared, open_shared
from sharebroker_server.broker.redis import open_redis
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.rpc.server import reserve

pytestmark = pytest.mark.servers  # it starts Valkey


def settings_of(data: Path, grpc: str = "127.0.0.1:0", redis: str | None = None) -> ServeSettings:
    return ServeSettings(data=data, grpc=grpc, redis=redis, processes=2, config=BrokerConfig.parse(()))


async def opened(settings: ServeSettings) -> Shared:
    """Opens what brokers share, and closes it."""
    async with AsyncExitStack() as stack:
        return await open_shared(settings, Observability(), stack)


async def test_brokers_use_the_embedded_valkey_of_the_data_folder(tmp_path: Path) -> None:
    observed = Observability()
    async with AsyncExitStack() as stack:
        shared = await open_shared(settings_of(tmp_path), observed, stack)
        assert shared.address == f"127.0.0.1:{shared.port}"
        assert [check for check in [await each() for each in observed.health.checks] if check] == []
        for settings in shared.brokers:
            redis = await open_redis(settings, stack)
            assert await redis.reads.call("PING", timeout=5.0) == b"PONG"
            assert redis.embedded is None
            assert settings.grpc == shared.address


async def test_node_ids_stay_with_the_data_folder(tmp_path: Path) -> None:
    first, second = [await opened(settings_of(tmp_path / "one")) for _ in range(2)]
    other = await opened(settings_of(tmp_path / "two"))
    ids = [[each.config.node_id for each in shared.brokers] for shared in (first, second, other)]
    assert ids[0] == ids[1] != ids[2]


async def test_node_ids_beside_a_redis_follow_from_the_address(tmp_path: Path) -> None:
    redis = "redis://127.0.0.1:1"  # nothing listens there, and the supervisor does not connect
    first = await opened(settings_of(tmp_path, redis=redis))
    grpc = first.address
    again = await opened(settings_of(tmp_path, grpc, redis))
    assert [each.config.node_id for each in first.brokers] == [each.config.node_id for each in again.brokers]
    assert {each.redis for each in first.brokers} == {redis}
    assert os.listdir(tmp_path) == []


async def test_a_taken_port_ends_the_start_before_the_valkey_starts(tmp_path: Path) -> None:
    with reserve("127.0.0.1:0") as taken:
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(KafkaError, match=f"Cannot listen on {address}: Address already in use"):
            await opened(settings_of(tmp_path, address))
    assert os.listdir(tmp_path) == []
