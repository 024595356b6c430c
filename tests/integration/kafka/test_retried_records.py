"""A retried record reaches its group by every kind of client, and no other group; plain consumers see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import confluent_kafka
import pytest

from sharebroker import Admin, ErrorCode, ShareConsumer
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.gateway.v1 import plan_pb2 as plan
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.records.record import FOR_GROUP_HEADER, RETRY_OF_HEADER
from tests.integration.kafka.harness import Harness
from tests.support.client import REJECT, TIMEOUT, unique
from tests.support.kafka_client import answered, runs
from tests.testkit.brokers import Cluster

Reading = Callable[[Harness, Cluster, str, tuple[str, str]], Awaitable[set[int]]]
"""Returns the offsets that a group gets of a topic, which is a name and an id."""


async def by_calls(harness: Harness, _: Cluster, group: str, topic: tuple[str, str]) -> set[int]:
    """Offsets that a member gets by unary calls until there are no more; accepts them."""
    member, found = unique("member"), set[int]()
    while True:
        records = (await harness.client.acquire(group, topic[0], 100, member=member, wait=1.0)).records
        if not records and found:
            return found
        found |= {record.offset for record in records}
        assert not any(await harness.client.acknowledge(group, member, records))


async def by_stream(_: Harness, cluster: Cluster, group: str, topic: tuple[str, str]) -> set[int]:
    """Offsets that a consumer with a stream gets."""

    def consume() -> set[int]:
        found: set[int] = set()
        with ShareConsumer(cluster.address, group, [topic[0]]) as consumer:
            while records := consumer.poll(timeout=1.0 if found else TIMEOUT):
                for record in records:
                    found.add(record.offset)
                    record.accept()
        return found

    return await asyncio.to_thread(consume)


async def by_kafka(harness: Harness, _: Cluster, group: str, topic: tuple[str, str]) -> set[int]:
    """Offsets that a share session of Kafka's protocol acquires."""
    name, topic_id = topic
    member, found, epoch = unique("member"), set[int](), 0
    await harness.client.heartbeat(group, member, 0, [name])  # initialises the share state
    async with harness.connect() as kafka:
        for _attempt in range(20):
            response = await kafka.share_fetch(group, member, epoch, {topic_id: [0]} if not epoch else {})
            assert response.error_code == 0
            epoch += 1
            data = answered(response).get((topic_id, 0))
            new = runs(data) if data is not None else []
            if not new and found:
                break
            found |= {offset for first, last, _count in new for offset in range(first, last + 1)}
            if new:
                acks = {(topic_id, 0): [(first, last, [1]) for first, last, _count in new]}
                await kafka.share_acknowledge(group, member, epoch, acks)
                epoch += 1
    return found


async def by_plan(harness: Harness, _: Cluster, group: str, topic: tuple[str, str]) -> set[int]:
    """Offsets that are planned for a batch of Spark's source."""
    opening = plan.OpenSessionRequest(group_id=group, session_id=unique("s"))
    epoch = (await harness.client.plans.OpenSession(opening, timeout=TIMEOUT)).epoch
    session = plan.PlanSession(group_id=group, session_id=opening.session_id, epoch=epoch)
    request = plan.PlanRequest(session=session, max_records=1000, max_wait_ms=5000)
    request.topics.add(name=topic[0])
    response = await harness.client.plans.Plan(request, timeout=TIMEOUT)
    spans = [each.range for each in response.ranges]
    return {offset for span in spans for offset in range(span.first_offset, span.last_offset + 1)}


async def rejected(harness: Harness, group: str, topic: str) -> None:
    """Rejects record 1 and accepts the records 0 and 2."""
    records = await harness.client.acquire_all(group, topic, 3, "m")
    assert [record.offset for record in records] == [0, 1, 2]
    assert not any(await harness.client.acknowledge(group, "m", records[1:2], REJECT))
    assert not any(await harness.client.acknowledge(group, "m", [records[0], records[2]]))


@pytest.mark.parametrize("reading", [by_calls, by_stream, by_kafka, by_plan])
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
async def test_only_its_group_receives_a_retried_record(
    harness: Harness, cluster: Cluster, reading: Reading, level: str
) -> None:
    topic, topic_id = await harness.client.create(1)
    group, *others = [await harness.client.group(share_isolation_level=level) for _ in range(3)]
    await harness.client.publish(topic, ["a", "b", "c"], partition=0)
    await rejected(harness, group, topic)
    request = admin.RetryFailedRecordsRequest(group_id=group, topic=topic, request_id="once")
    request.partitions.add(partition=0, offsets=[1])
    for _ in range(2):
        (result,) = (await harness.client.admin.RetryFailedRecords(request, timeout=TIMEOUT)).results
        assert (ErrorCode(result.error_code), result.copy_offset) == (ErrorCode.NONE, 3)
    await harness.client.publish(topic, ["d"], partition=0)
    assert await reading(harness, cluster, group, (topic, topic_id)) == {3, 4}
    for other in others:
        assert await reading(harness, cluster, other, (topic, topic_id)) == {0, 1, 2, 4}


async def test_each_failure_of_a_retried_record_is_listed_once(harness: Harness) -> None:
    topic, _ = await harness.client.create(1)
    group = await harness.client.group()
    await harness.client.publish(topic, ["a", "b", "c"], partition=0)
    await rejected(harness, group, topic)
    for failed, copy in ((1, 3), (3, 4)):
        request = admin.RetryFailedRecordsRequest(group_id=group, topic=topic)
        request.partitions.add(partition=0, offsets=[failed])
        (result,) = (await harness.client.admin.RetryFailedRecords(request, timeout=TIMEOUT)).results
        assert result.copy_offset == copy
        assert not any(
            await harness.client.acknowledge(
                group, "m", await harness.client.acquire_all(group, topic, 1, "m"), REJECT
            )
        )
    listing = admin.ListFailedRecordsRequest(group_id=group, topic=topic)
    entries = (await harness.client.admin.ListFailedRecords(listing, timeout=TIMEOUT)).entries
    assert [(entry.first_offset, entry.last_offset) for entry in entries] == [(1, 1), (3, 3), (4, 4)]


async def test_plain_consumers_see_the_copy_with_its_headers(harness: Harness, cluster: Cluster) -> None:
    topic, _ = await harness.client.create(1)
    group = await harness.client.group()
    record = produce.PublishRecord(text="b", key=b"k", partition=0)
    record.headers.add(key="traceparent", value=b"00-1-2-01")
    request = produce.PublishRequest(topic=topic, records=[record] * 3)
    await harness.client.produce.Publish(request, timeout=TIMEOUT)
    await rejected(harness, group, topic)

    def retry() -> None:
        with Admin(cluster.address) as client:
            (result,) = client.retry_failed_records(group, topic, {0: [1]})
            assert (result.copy_offset, result.error) == (3, None)
            (entry,) = client.failed_records(group, topic, include_retried=True).entries
            assert [(run.first_offset, run.copy_offset) for run in entry.retried] == [(1, 3)]

    await asyncio.to_thread(retry)

    def consume() -> confluent_kafka.Message:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": harness.address,
                "group.id": unique("group"),
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 3)])
        message = consumer.poll(TIMEOUT)
        consumer.close()
        assert message is not None
        assert not message.error()
        return message

    message = await asyncio.to_thread(consume)
    assert (message.offset(), message.key(), message.value()) == (3, b"k", b"b")
    assert message.headers() == [
        ("traceparent", b"00-1-2-01"),
        (FOR_GROUP_HEADER, group.encode()),
        (RETRY_OF_HEADER, f"{topic}/0/1".encode()),
    ]
