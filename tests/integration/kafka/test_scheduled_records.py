"""Scheduled records of librdkafka's producer, the gRPC API, the Python client and the command line."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from random import Random
from typing import Final

import confluent_kafka
import pytest

from sharebroker import Admin, ErrorCode, KafkaError, Producer
from sharebroker_protocol.clock import now
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.records.record import DELIVER_AT_HEADER
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.integration.kafka.harness import Harness
from tests.support.client import TIMEOUT, rejection, unique
from tests.testkit.brokers import Cluster

ENABLED: Final = {"delivery_delay_enable": "true"}
HEADER: Final = "sharebroker.deliver.at"
TOLERANCE: Final = 0.05
"""Seconds by which the clocks of two processes may differ: each reads two clocks when it starts."""


def publish(address: str, topic: str, times: Sequence[float | None], **settings: str) -> None:
    """Publishes a record with each delivery time in seconds as its value; None: without one."""
    names = {name.replace("_", "."): value for name, value in settings.items()}
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "linger.ms": 50, **names})
    for time in times:
        headers = {} if time is None else {HEADER: str(round(time * 1000)).encode()}
        producer.produce(topic, str(time or 0).encode(), partition=0, headers={**headers})
    assert producer.flush(TIMEOUT) == 0


async def received(harness: Harness, group: str, topic: str, number: int) -> list[tuple[float, float]]:
    """The value of each record and the time of its arrival; accepts all."""
    found: list[tuple[float, float]] = []
    member = unique("member")
    while len(found) < number:
        got = await harness.client.acquire(group, topic, 200, member=member, wait=2.0)
        found += [(float(record.text), now()) for record in got.records]
        if got.records:
            assert not any(await harness.client.acknowledge(group, member, got.records))
    return found


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_each_group_gets_each_record_once_and_none_early(harness: Harness, codec: str) -> None:
    assert HEADER == DELIVER_AT_HEADER
    topic, _ = await harness.client.create(1, **ENABLED)
    groups = [await harness.client.group() for _ in range(3)]
    random, start = Random(19), now()
    times = [round(start + random.uniform(0.5, 4.0), 3) for _ in range(1000)]
    times[::10] = [0.0] * 100
    await asyncio.to_thread(
        publish, harness.address, topic, [time or None for time in times], compression_type=codec
    )
    for got in await asyncio.gather(*(received(harness, group, topic, len(times)) for group in groups)):
        assert sorted(value for value, _ in got) == sorted(times)
        assert all(at >= value - TOLERANCE for value, at in got)
    late = await received(harness, await harness.client.group(), topic, len(times))
    assert len(late) == len(times)


async def test_records_of_an_aborted_transaction_are_never_delivered(harness: Harness) -> None:
    topic, _ = await harness.client.create(1, **ENABLED)
    group = await harness.client.group(share_isolation_level="read_committed")

    def run(time: float) -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": harness.address, "transactional.id": unique("id")}
        )
        producer.init_transactions(TIMEOUT)
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            headers: dict[str, str | bytes | None] = {HEADER: str(round(time * 1000))}
            producer.produce(topic, end.__name__.encode(), partition=0, headers=headers)
            producer.flush(TIMEOUT)
            end(TIMEOUT)

    due = now() + 2.0
    await asyncio.to_thread(run, due)
    (record,) = await harness.client.acquire_all(group, topic, 1, unique("member"))
    assert (record.text, now() >= due - TOLERANCE) == ("commit_transaction", True)


async def test_plain_consumers_receive_a_scheduled_record_at_once(harness: Harness) -> None:
    topic, _ = await harness.client.create(1, **ENABLED)
    await asyncio.to_thread(publish, harness.address, topic, [now() + 3600])

    def consume() -> int | None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": harness.address,
                "group.id": unique("group"),
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([topic])
        message = consumer.poll(TIMEOUT)
        consumer.close()
        assert message is not None
        return message.offset()

    assert await asyncio.to_thread(consume) == 0


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("soon", confluent_kafka.KafkaError.INVALID_RECORD),
        ("9999999999999", confluent_kafka.KafkaError.INVALID_TIMESTAMP),
    ],
)
async def test_kafkas_producers_get_an_error_for_a_bad_header(
    harness: Harness, value: str, code: int
) -> None:
    topic, _ = await harness.client.create(1, **ENABLED)
    errors: list[object] = []

    def produce_one() -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": harness.address})
        producer.produce(
            topic,
            b"x",
            headers=[(HEADER, value.encode())],
            on_delivery=lambda error, _: errors.append(error and error.code()),
        )
        producer.flush(TIMEOUT)

    await asyncio.to_thread(produce_one)
    assert errors == [code]


async def test_without_the_topic_config_fields_are_rejected_and_headers_ignored(
    harness: Harness,
) -> None:
    topic, _ = await harness.client.create(1)
    records = [produce.PublishRecord(text="x", deliver_after_ms=1)]
    request = produce.PublishRequest(topic=topic, records=records)
    refused = await rejection(harness.client.produce.Publish(request, timeout=TIMEOUT))
    assert (refused.code, refused.fields) == (ErrorCode.INVALID_REQUEST, ("records[0].deliver_after_ms",))
    await asyncio.to_thread(publish, harness.address, topic, [now() + 3600])
    assert len(await harness.client.acquire_all(await harness.client.group(), topic, 1, unique("m"))) == 1


async def test_the_apis_schedule_records(harness: Harness, cluster: Cluster) -> None:
    topic, _ = await harness.client.create(1, **ENABLED)
    group, server = await harness.client.group(), cluster.address
    begin = now()
    records = [
        produce.PublishRecord(text="grpc at", deliver_at_ms=round((begin + 1.5) * 1000)),
        produce.PublishRecord(text="grpc after", deliver_after_ms=1500),
        produce.PublishRecord(text="now"),
    ]
    await harness.client.produce.Publish(
        produce.PublishRequest(topic=topic, records=records), timeout=TIMEOUT
    )
    member = unique("member")
    (first,) = await harness.client.acquire_all(group, topic, 1, member)
    assert first.text == "now"

    def blocking() -> None:
        with Producer(server) as producer:
            producer.publish(topic, b"client at", deliver_at=begin + 1.5)
            producer.publish(topic, b"client after", deliver_after=1.5)
            for at, after in ((1.0, 1.0), (None, -1.0)):
                with pytest.raises(KafkaError) as caught:
                    producer.send(topic, b"x", deliver_at=at, deliver_after=after)
                assert caught.value.code is ErrorCode.INVALID_RECORD
        main = [sys.executable, "-c", "from sharebroker.cli import main; main()", "produce", topic]
        subprocess.run(
            [*main, "--deliver-after", "1.5", "--server", server],
            input=b"command\n",
            check=True,
            capture_output=True,
        )

    await asyncio.to_thread(blocking)
    got = await harness.client.acquire_all(group, topic, 5, member)
    assert now() >= begin + 1.5 - TOLERANCE
    assert {each.text for each in got} == {"grpc at", "grpc after", "client at", "client after", "command"}


async def test_no_group_receives_a_recalled_record(harness: Harness, cluster: Cluster) -> None:
    topic, topic_id = await harness.client.create(1, **ENABLED)
    early, due = await harness.client.group(), now() + 8.0
    await asyncio.to_thread(publish, harness.address, topic, [due, due, None, due, due + 3600])
    (first,) = await harness.client.acquire_all(early, topic, 1, unique("member"))
    assert first.offset == 2

    def recall() -> None:
        with Admin(cluster.address) as admin:
            for offset in (1, 3):
                admin.recall_record(TopicPartition(topic, 0), offset)
            for offset, code in ((2, ErrorCode.RESOURCE_NOT_FOUND), (9, ErrorCode.OFFSET_OUT_OF_RANGE)):
                with pytest.raises(KafkaError) as caught:
                    admin.recall_record(TopicPartition(topic, 0), offset)
                assert caught.value.code is code
        main = [sys.executable, "-c", "from sharebroker.cli import main; main()", "topics", "recall", topic]
        subprocess.run([*main, "0", "4", "--server", cluster.address], check=True, capture_output=True)

    await asyncio.to_thread(recall)
    part = leader.RecallRecordsRequest.Partition(topic_id=topic_id, partition=0, offset=1)
    twice = leader.RecallRecordsRequest(partitions=[part, part])
    refused = await rejection(harness.client.admin.RecallRecords(twice, timeout=TIMEOUT))
    assert (refused.code, refused.fields) == (ErrorCode.INVALID_REQUEST, ("partitions",))
    for group, offsets in ((early, [0]), (await harness.client.group(), [0, 2])):
        member = unique("member")
        got = await harness.client.acquire_all(group, topic, len(offsets), member)
        assert sorted(record.offset for record in got) == offsets
        assert not any(await harness.client.acknowledge(group, member, got))
    request = leader.RecallRecordsRequest(
        partitions=[leader.RecallRecordsRequest.Partition(topic_id=topic_id, partition=0, offset=0)]
    )
    (late,) = (await harness.client.admin.RecallRecords(request, timeout=TIMEOUT)).partitions
    assert ErrorCode(late.error_code) is ErrorCode.INVALID_RECORD_STATE
