"""Topics are deleted while a process is down or dies before removal completes: nothing remains."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import redis

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster_pb
from tests.support.client import TIMEOUT, Client, connected
from tests.testkit.brokers import Cluster, four_processes, one_process
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.xdist_group("fault-deleted-topics")  # one cluster for each kind

SOON = (
    "--set",
    "log.retention.check.interval.ms=500",
    "--set",
    "share.coordinator.state.topic.prune.interval.ms=500",
)
AWAY = {
    "one process": ["all"],
    "four processes": ["share-coordinator", "share-partition-leader", "group-coordinator"],
}


@pytest.fixture(scope="module", params=AWAY)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    start = one_process if request.param == "one process" else four_processes
    with start(*SOON) as cluster:
        yield cluster


async def test_deleted_topic_leaves_no_keys(cluster: Cluster) -> None:
    """State and logs still exist when the processes that would have removed them die."""
    *others, last = [cluster.process(role) for role in AWAY[_kind(cluster)]]
    async with connected(cluster.address) as client:
        name, topic_id = await client.create(2)
        group_id = await client.group()
        for partition in (0, 1):
            await client.publish(name, ["a", "b"], partition=partition)
        held = await client.acquire_all(group_id, name, 4, "member")
        assert await client.acknowledge(group_id, "member", held[:3]) == [0, 0, 0]
        for process in others:
            await asyncio.to_thread(process.kill)
        await _delete(client, name)
        await asyncio.to_thread(last.kill)
        for process in (*others, last):
            await asyncio.to_thread(process.start)
    async with connected(cluster.address) as client:
        await eventually(lambda: not _keys(cluster, topic_id), 30.0)

        async def no_state() -> bool:
            states = [await client.inspect(group_id, topic_id, partition) for partition in (0, 1)]
            return not any(state.HasField("folded") for state in states)

        await eventually(no_state, 30.0)
        again, new_id = await client.create(2, name=name)
        assert (again, new_id != topic_id) == (name, True)
        assert await client.publish(name, ["new"], partition=1) == [(1, 0)]
        (record,) = await client.acquire_all(group_id, name, 1, "member")
        assert (record.text, record.offset, record.delivery_count) == ("new", 0, 1)


def _kind(cluster: Cluster) -> str:
    return "one process" if len(cluster.processes) == 1 else "four processes"


async def _delete(client: Client, name: str) -> None:
    request = cluster_pb.DeleteTopicsRequest()
    request.topics.add(name=name)
    assert not (await client.admin.DeleteTopics(request, timeout=TIMEOUT)).topics[0].error_code


def _keys(cluster: Cluster, topic_id: str) -> list[bytes]:
    with redis.Redis.from_url(cluster.redis_url) as connection:
        return [key for key in connection.scan_iter(count=10_000) if topic_id.encode() in key]
