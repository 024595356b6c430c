"""The cluster changes during consumption: topics are deleted, partitions are added, members stop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
import redis

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster_pb
from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from tests.support.client import ACCEPT, TIMEOUT, Client, connected, rejection, unique
from tests.testkit.brokers import Cluster
from tests.testkit.waiting import eventually


class Stream:
    """A Consume stream whose records and results a test checks."""

    def __init__(self, call: grpc.aio.StreamStreamCall[share.ConsumeRequest, share.ConsumeResponse]) -> None:
        self._call = call
        self.records: list[share.ShareRecord] = []
        self.results: dict[int, ErrorCode] = {}

    async def until(self, condition: Callable[[], object]) -> None:
        """Reads until the condition holds."""
        while not condition():
            response = await self._call.read()
            assert isinstance(response, share.ConsumeResponse)
            self.records += response.records
            self.results |= {result.id: ErrorCode(result.error_code) for result in response.results}

    async def accept(self, number: int, record: share.ShareRecord, kind: int = ACCEPT) -> ErrorCode:
        """Acknowledges a record, by default with ACCEPT; returns the result."""
        acknowledgement = delivery.Acknowledgement(
            id=number,
            topic_id=record.topic_id,
            partition=record.partition,
            first_offset=record.offset,
            type=delivery.AcknowledgeType.ValueType(kind),
            lock_token=record.lock_token,
        )
        await self._call.write(share.ConsumeRequest(acknowledgements=[acknowledgement], credit=1))
        await self.until(lambda: number in self.results)
        return self.results[number]

    def texts(self) -> set[str]:
        """Returns the texts of the received records."""
        return {record.text for record in self.records}


@asynccontextmanager
async def consuming(client: Client, group_id: str, *topics: str) -> AsyncIterator[Stream]:
    """Provides a stream with credit for ten records."""
    call = client.share.Consume(timeout=TIMEOUT)
    subscribe = share.ConsumeRequest.Subscribe(group_id=group_id, topics=topics, decode=True, as_text=True)
    await call.write(share.ConsumeRequest(subscribe=subscribe, credit=10))
    yield Stream(call)
    call.cancel()


async def test_topic_deleted_during_consumption_ends_its_records(client: Client, cluster: Cluster) -> None:
    (doomed, doomed_id), (kept, _) = await client.create(2), await client.create()
    group_id = await client.group()
    for partition in (0, 1):
        await client.publish(doomed, [f"doomed {partition}"] * 2, partition=partition)
    async with consuming(client, group_id, doomed, kept) as stream:
        await stream.until(lambda: len(stream.records) == 4)
        accepted, *held = stream.records
        assert await stream.accept(1, accepted) is ErrorCode.NONE
        assert _keys(cluster, doomed_id)
        await _delete(client, doomed)
        for number, record in enumerate(held, 2):
            assert await stream.accept(number, record) is not ErrorCode.NONE
        await client.publish(kept, ["kept"])
        await stream.until(lambda: "kept" in stream.texts())
        assert await stream.accept(9, stream.records[-1]) is ErrorCode.NONE

    await eventually(lambda: not _keys(cluster, doomed_id))

    async def deleted() -> bool:
        return not (await client.inspect(group_id, doomed_id, accepted.partition)).HasField("folded")

    await eventually(deleted)
    rejected = await rejection(client.publish(doomed, ["late"]))
    assert rejected.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_recreated_topic_is_a_different_topic(client: Client) -> None:
    topic, old_id = await client.create()
    group_id = await client.group()
    await client.publish(topic, ["old"] * 3)
    async with consuming(client, group_id, topic) as stream:
        await stream.until(lambda: len(stream.records) == 3)
        await stream.accept(1, stream.records[0])
        await _delete(client, topic)
        request = cluster_pb.CreateTopicsRequest()
        request.topics.add(name=topic)
        new_id = (await client.admin.CreateTopics(request, timeout=TIMEOUT)).topics[0].topic_id
        assert new_id != old_id
        assert await client.publish(topic, ["new"]) == [(0, 0)]
        await stream.until(lambda: "new" in stream.texts())
        assert stream.records[-1].topic_id == new_id
        assert stream.records[-1].delivery_count == 1


async def test_added_partitions_are_served_to_current_members(client: Client) -> None:
    topic, _ = await client.create()
    group_id = await client.group()
    await client.publish(topic, ["first"])
    async with consuming(client, group_id, topic) as stream:
        await stream.until(lambda: "first" in stream.texts())
        request = cluster_pb.CreatePartitionsRequest()
        request.topics.add(name=topic, count=3)
        assert not (await client.admin.CreatePartitions(request, timeout=TIMEOUT)).results[0].error_code
        for partition in (2, 1):
            await client.publish(topic, [f"in {partition}"], partition=partition)
        await stream.until(lambda: stream.texts() >= {"in 1", "in 2"})
        assert await stream.accept(1, stream.records[-1]) is ErrorCode.NONE


async def test_records_of_a_fenced_member_are_redelivered_at_once(client: Client) -> None:
    topic, _ = await client.create()
    group_id = await client.group(
        share_session_timeout_ms="1000",
        share_heartbeat_interval_ms="500",
        share_record_lock_duration_ms="60000",
    )
    await client.publish(topic, ["work"])
    silent = unique("silent")
    await client.heartbeat(group_id, silent, 0, [topic])
    (held,) = await client.acquire_all(group_id, topic, 1, silent)
    assert not (await client.acquire(group_id, topic, 1, member="quick", wait=0.0)).records
    (again,) = await client.acquire_all(group_id, topic, 1, "quick")
    assert (again.offset, again.delivery_count) == (held.offset, 2)
    assert await client.acknowledge(group_id, silent, [held]) == [ErrorCode.INVALID_RECORD_STATE]
    assert await client.acknowledge(group_id, "quick", [again]) == [ErrorCode.NONE]


async def test_acknowledgement_without_a_type_is_rejected(client: Client) -> None:
    topic, topic_id = await client.create()
    group_id = await client.group()
    await client.publish(topic, ["work"])
    async with consuming(client, group_id, topic) as stream:
        await stream.until(lambda: stream.records)
        assert await stream.accept(1, stream.records[0], kind=0) is ErrorCode.INVALID_REQUEST
        assert await client.finished(group_id, topic_id) == set()
        assert await stream.accept(2, stream.records[0]) is ErrorCode.NONE
    assert await client.finished(group_id, topic_id) == {0}


async def test_records_of_a_broken_connection_are_redelivered_at_once(client: Client, server: str) -> None:
    """Long before their locks time out, and without a release request."""
    topic, _ = await client.create()
    group_id = await client.group(share_record_lock_duration_ms="60000")
    await client.publish(topic, ["a", "b"])
    async with connected(server) as broken:
        call = broken.share.Consume()
        subscribe = share.ConsumeRequest.Subscribe(group_id=group_id, topics=[topic], decode=True)
        await call.write(share.ConsumeRequest(subscribe=subscribe, credit=10))
        stream = Stream(call)
        await stream.until(lambda: len(stream.records) == 2)
    again = await client.acquire_all(group_id, topic, 2, "next")
    assert [(record.offset, record.delivery_count) for record in again] == [(0, 2), (1, 2)]


async def _delete(client: Client, topic: str) -> None:
    request = cluster_pb.DeleteTopicsRequest()
    request.topics.add(name=topic)
    assert not (await client.admin.DeleteTopics(request, timeout=TIMEOUT)).topics[0].error_code


def _keys(cluster: Cluster, topic_id: str) -> list[bytes]:
    with redis.Redis.from_url(cluster.redis_url) as connection:
        return [key for key in connection.scan_iter(count=10_000) if topic_id.encode() in key]
