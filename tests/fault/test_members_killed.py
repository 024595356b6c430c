"""A worker dies and its server restarts again and again: another worker gets its share-partitions in time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic

import grpc
import pytest

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from tests.support.client import Client, connected, rejection_of
from tests.testkit.brokers import Cluster, one_process

SESSION = 8.0
SERVES = 2.5
"""Seconds between a start and the next kill, far less than a session."""
INTERVAL = 0.5
RESTARTS = 10
SETTINGS = (
    f"group.share.session.timeout.ms={SESSION * 1000:.0f}",
    "group.share.min.session.timeout.ms=1000",
    f"group.share.heartbeat.interval.ms={INTERVAL * 1000:.0f}",
    "group.share.min.heartbeat.interval.ms=100",
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with one_process(*(option for setting in SETTINGS for option in ("--set", setting))) as cluster:
        yield cluster


class Worker:
    """A member that sends heartbeats; `partitions` is its assignment."""

    def __init__(self, client: Client, group_id: str, name: str) -> None:
        self.partitions: set[int] = set()
        self._client = client
        self._group_id = group_id
        self._name = name
        self._epoch = 0

    async def join(self, topic: str) -> None:
        self._received(await self._client.heartbeat(self._group_id, self._name, 0, [topic]))

    async def work(self, seconds: float) -> None:
        """Sends heartbeats; any error but a server that is not ready yet fails the test."""
        until = monotonic() + seconds
        while monotonic() < until:
            try:
                self._received(await self._client.heartbeat(self._group_id, self._name, self._epoch))
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise AssertionError(rejection_of(error)) from error
            await asyncio.sleep(INTERVAL)

    def _received(self, response: groups.ShareGroupHeartbeatResponse) -> None:
        assert not response.error_code, response.error_message
        self._epoch = response.member_epoch
        if response.HasField("assignment"):
            topics = response.assignment.topic_partitions
            self.partitions = {partition for topic in topics for partition in topic.partitions}


async def test_share_partitions_of_a_dead_member_are_reassigned_in_time(cluster: Cluster) -> None:
    (process,) = cluster.processes
    async with connected(cluster.address) as client:
        topic, _ = await client.create(2)
        group_id = await client.group()
        dead, live = Worker(client, group_id, "dead"), Worker(client, group_id, "live")
        joined = monotonic()
        await dead.join(topic)
        await live.join(topic)
        restarts = 0
        while live.partitions != {0, 1} and restarts < RESTARTS:
            await asyncio.to_thread(process.kill)
            await asyncio.to_thread(process.start)
            restarts += 1
            await live.work(SERVES)
        assert live.partitions == {0, 1}
        assert monotonic() - joined >= SESSION
