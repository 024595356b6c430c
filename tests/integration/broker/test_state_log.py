"""The log of share state in Kafka's form, over gRPC, from real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import ShareCoordinatorServiceStub
from sharebroker_server.coordinator_runtime.host import shard_of
from tests.support.client import REJECT, TIMEOUT, Client, rejection, unique
from tests.support.kafka_state import Folded, Record, fold, read_batches
from tests.testkit.brokers import Cluster
from tests.testkit.cluster_tokens import internal_channel, stored_secret

if TYPE_CHECKING:  # the asyncio stubs exist for type checkers only
    from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import (
        ShareCoordinatorServiceAsyncStub,
    )

PLENTY = 1 << 20


@pytest.fixture
async def coordinator(client: Client, cluster: Cluster) -> AsyncIterator[ShareCoordinatorServiceAsyncStub]:
    """Returns the one process that has the role."""
    nodes = (await client.admin.Metadata(admin.MetadataRequest(), timeout=TIMEOUT)).nodes
    [address] = [node.address for node in nodes if "share-coordinator" in node.roles]
    async with internal_channel(address, stored_secret(cluster.redis_url)) as channel:
        yield ShareCoordinatorServiceStub(channel)


async def fetch(
    coordinator: ShareCoordinatorServiceAsyncStub, shard: int, offset: int, wait_ms: int = 0
) -> list[Record]:
    request = pb.FetchShareGroupStateRequest(
        shard=shard, fetch_offset=offset, max_bytes=PLENTY, max_wait_ms=wait_ms
    )
    response = await coordinator.FetchShareGroupState(request, timeout=TIMEOUT)
    return list(read_batches(response.record_batches))


async def find(coordinator: ShareCoordinatorServiceAsyncStub, shard: int, timestamp: int) -> int:
    request = pb.FindShareGroupStateOffsetRequest(shard=shard, timestamp=timestamp)
    return (await coordinator.FindShareGroupStateOffset(request, timeout=TIMEOUT)).offset


async def test_state_log_replays_to_the_groups_state(
    client: Client, coordinator: ShareCoordinatorServiceAsyncStub
) -> None:
    topic, topic_id = await client.create()
    group_id, member = await client.group(), unique("member")
    shard = shard_of(f"{group_id}:{topic_id}:0", 50)
    start = await find(coordinator, shard, -1)
    await client.publish(topic, map(str, range(6)))
    held = await client.acquire_all(group_id, topic, 6, member)
    assert await client.acknowledge(group_id, member, held[:2]) == [0, 0]
    assert await client.acknowledge(group_id, member, held[3:4], REJECT) == [0]
    records = [r for r in await fetch(coordinator, shard, start) if r.key == (group_id, topic_id, 0)]
    assert [r.kind for r in records[:2]] == ["ShareSnapshot", "ShareUpdate"]  # initialised, then read
    inspected = (await client.inspect(group_id, topic_id)).folded
    folded = fold(records)[group_id, topic_id, 0]
    assert folded == Folded(
        inspected.state_epoch,
        inspected.leader_epoch,
        inspected.start_offset,
        inspected.delivery_complete_count,
        folded.offsets,
    )
    assert {offset: state for offset, (_, state) in folded.offsets.items() if state} == {3: 4}
    assert folded.start_offset == 2
    times = [r.timestamp for r in records]
    assert times == sorted(times)
    assert times[0] > 1_700_000_000_000


async def test_state_log_wait_and_invalid_options(
    client: Client, coordinator: ShareCoordinatorServiceAsyncStub
) -> None:
    topic, topic_id = await client.create()
    group_id, member = await client.group(), unique("member")
    shard = shard_of(f"{group_id}:{topic_id}:0", 50)
    end = await find(coordinator, shard, -1)
    waiting = asyncio.create_task(fetch(coordinator, shard, end, wait_ms=15_000))
    await client.heartbeat(group_id, member, 0, [topic])
    assert (await waiting)[0].offset == end
    for offset in (-1, end + 1000):
        assert (await rejection(fetch(coordinator, shard, offset))).code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await rejection(fetch(coordinator, 50, 0))).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
