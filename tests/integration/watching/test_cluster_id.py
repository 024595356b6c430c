"""Two clusters in one Redis are isolated from each other, and the data of one is rejected by the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_server.broker.defaults import CLOSED
from sharebroker_server.broker.identity import node_identity
from sharebroker_server.broker.process import Process
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig
from tests.integration.watching.conftest import ask
from tests.support.client import TIMEOUT, connected
from tests.testkit.servers import Server, running
from tests.testkit.waiting import eventually

Start = Callable[[ServeSettings], Awaitable[Process]]


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    with running("valkey") as server:
        yield server


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts processes here, and stops them."""
    async with AsyncExitStack() as stack:

        async def started(settings: ServeSettings) -> Process:
            process = Process(settings)
            await process.start()
            stack.push_async_callback(process.stop)
            return process

        yield started


def of_cluster(name: str, **others: object) -> ServeSettings:
    settings = ServeSettings(
        grpc="127.0.0.1:0", kafka=CLOSED, config=BrokerConfig.parse([f"cluster.id={name}"])
    )
    return replace(settings, **others)  # type: ignore[arg-type]  # whatever a test needs


async def test_two_clusters_in_one_redis_are_isolated(redis: Server, start: Start) -> None:
    one = await start(of_cluster("one", redis=redis.url))
    two = await start(of_cluster("two", redis=redis.url))
    async with connected(one.address) as first, connected(two.address) as second:
        topic, _ = await first.create()
        await first.publish(topic, "a")
        await second.create(name=topic)
        seen = []
        for client in (first, second):
            metadata = await client.admin.Metadata(pb.MetadataRequest(topics=[topic]), timeout=TIMEOUT)
            seen.append((metadata.cluster_id, len(metadata.nodes)))
        group = await second.group()
        nothing = await second.acquire(group, topic, 1, wait=0.0)
    assert seen == [("one", 1), ("two", 1)]
    assert not nothing.records


async def test_gateway_with_another_cluster_id_is_not_ready(redis: Server, start: Start) -> None:
    await start(of_cluster("right", redis=redis.url))
    lost = await start(
        of_cluster("wrong", redis=redis.url, roles=frozenset({"gateway"}), metrics="127.0.0.1:0")
    )
    assert lost.metrics_address is not None
    status, page = await ask(f"http://{lost.metrics_address}/readyz")
    assert status == 503
    assert "a broker with the role group-coordinator" in page
    found = await start(
        of_cluster("right", redis=redis.url, roles=frozenset({"gateway"}), metrics="127.0.0.1:0")
    )

    async def ready() -> bool:
        return (await ask(f"http://{found.metrics_address}/readyz"))[0] == 200

    await eventually(ready, 60)


def test_data_folder_of_another_cluster_is_rejected(tmp_path: Path) -> None:
    node_identity(of_cluster("one", data=tmp_path), "here:1")
    node_identity(of_cluster("one", data=tmp_path), "here:1")
    with pytest.raises(KafkaError, match=r"'one', but cluster\.id is 'two'") as refused:
        node_identity(of_cluster("two", data=tmp_path), "here:1")
    assert refused.value.code is ErrorCode.INVALID_CONFIG


async def test_every_component_exports_metrics(redis: Server, start: Start) -> None:
    process = await start(of_cluster("exported", redis=redis.url, metrics="127.0.0.1:0"))
    status, text = await ask(f"http://{process.metrics_address}/metrics")
    assert status == 200
    for expected in (
        'sharebroker_leases_held{kind="share-coordinator"} 50',
        'sharebroker_lease_changes_total{kind="catalog",change="acquired"} 1',
        'sharebroker_shards{coordinator="group-coordinator",state="closed"} 0',
        'sharebroker_members{role="gateway"} 1',
        'sharebroker_redis_connected{link="all"} 1',
    ):
        assert expected in text
