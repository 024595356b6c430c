"""A role is scaled up and down under load: leases are spread, and clients receive no error."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import grpc
import pytest
import redis

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.leases.names import kind_of
from sharebroker_server.redis_link.keys import Keys
from tests.chaos.clients import GRPC, Member, Publisher
from tests.chaos.history import History
from tests.support.client import Client, connected, unique
from tests.testkit.brokers import Cluster, Serve, four_processes
from tests.testkit.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("scaled roles")]

PARTITIONS = 4
MANY = 12

PATIENCE = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with four_processes() as cluster:
        yield cluster


def shares(cluster: Cluster, kind: str, of: str = "") -> Counter[str]:
    """Returns how many leases of a kind each owner has, of one topic if it is named."""
    with redis.Redis.from_url(cluster.redis_url) as connection:
        keys = [key.decode() for key in connection.scan_iter(f"{Keys().prefix}:*:lease", count=10_000)]
        selected = [key for key in keys if of in key and kind_of(Keys.resource_of(key)) == kind]
        owners = [connection.hget(key, "owner") for key in selected]
    return Counter(owner.decode() for owner in owners if owner)


def is_spread(counted: Counter[str], owners: int, resources: int) -> bool:
    complete = len(counted) == owners and counted.total() == resources
    return complete and max(counted.values()) <= 1.5 * min(counted.values())


@asynccontextmanager
async def work(cluster: Cluster, address: str = "") -> AsyncIterator[History]:
    """Runs a producer and two consumers like programs; at the end none may have received an error.

    They start with the cluster's gateway, or with the addresses of several.
    """
    history, over = History(), asyncio.Event()
    async with connected(cluster.address) as client:
        topic, _ = await client.create(PARTITIONS)
    address = address or cluster.address
    publisher = Publisher(history, "p", address, topic, PARTITIONS)
    members = [Member(history, f"m{n}", address, topic, Random(n)) for n in range(2)]
    history.sequences.expect(
        [(actor, number) for actor in (GRPC, "publish p") for number in range(PARTITIONS)]
    )
    consuming = [asyncio.create_task(member.run()) for member in members]
    publishing = asyncio.create_task(publisher.run(over))
    try:
        await goes_on(history)
        yield history
        await goes_on(history)
    finally:
        over.set()
        await publishing
        for task in consuming:
            task.cancel()
        await asyncio.wait(consuming)
    assert not history.surfaced
    assert publisher.failed == 0


async def goes_on(history: History) -> None:
    since = history.now()
    await eventually(lambda: not history.sequences.idle(since), PATIENCE)


@asynccontextmanager
async def joined(cluster: Cluster, role: str, more: int) -> AsyncIterator[list[Serve]]:
    """Starts more processes of a role; they stop in good order."""
    first = cluster.process(role)
    serves = [Serve(first.folder, first.options, unique(role)) for _ in range(more)]
    try:
        await asyncio.gather(*(asyncio.to_thread(serve.start) for serve in serves))
        yield serves
    finally:
        for serve in serves:
            assert await asyncio.to_thread(serve.stop) == 0


@pytest.mark.parametrize(
    ("role", "kinds"),
    [
        ("share-coordinator", ["share-coordinator"]),
        ("group-coordinator", ["group-coordinator", "transaction-coordinator"]),
    ],
)
async def test_shards_are_spread_over_live_brokers(cluster: Cluster, role: str, kinds: list[str]) -> None:
    def partitions_are_spread(owners: int) -> Callable[[], bool]:
        return lambda: all(is_spread(shares(cluster, kind), owners, 50) for kind in kinds)

    async with work(cluster) as history:
        async with joined(cluster, role, 2):
            await eventually(partitions_are_spread(3), PATIENCE)
            await goes_on(history)
        await eventually(partitions_are_spread(1), PATIENCE)


async def test_partitions_are_spread_over_live_brokers(cluster: Cluster) -> None:
    async with work(cluster) as history, connected(cluster.address) as client:
        _, topic_id = await client.create(MANY)

        async def partitions_are_spread(owners: int) -> bool:
            """Partitions are claimed when they are used."""
            return await used(client, topic_id) and is_spread(
                shares(cluster, "partition", topic_id), owners, MANY
            )

        async with joined(cluster, "share-partition-leader", 1):
            await eventually(lambda: partitions_are_spread(2), PATIENCE)
            await goes_on(history)
        await eventually(lambda: partitions_are_spread(1), PATIENCE)


async def test_clients_move_to_another_gateway(cluster: Cluster) -> None:
    async with AsyncExitStack() as stack:
        [second] = await stack.enter_async_context(joined(cluster, "gateway", 1))
        async with work(cluster, f"ipv4:{second.address},{cluster.address}") as history:
            await goes_on(history)
            await stack.aclose()  # it stops in good order, with streams open
            await goes_on(history)


async def used(client: Client, topic_id: str) -> bool:
    """Returns whether every partition returned its end offset."""
    request = leader.ListOffsetsRequest()
    for partition in range(MANY):
        request.partitions.add(topic_id=topic_id, partition=partition, timestamp=-1)
    try:
        response = await client.admin.ListOffsets(request, timeout=PATIENCE)
    except grpc.aio.AioRpcError:
        return False
    return not any(part.error_code for part in response.partitions)
