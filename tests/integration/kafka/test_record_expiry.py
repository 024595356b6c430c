"""Records older than `share.record.max.age.ms`, published by librdkafka with timestamps of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import confluent_kafka

from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness, Readable, acquire
from tests.integration.kafka.test_configs import GROUP, SET, change
from tests.support.client import TIMEOUT, unique
from tests.support.kafka_client import KafkaClient

MAX_AGE = "share.record.max.age.ms"
HOUR = 3_600_000


def publish(address: str, topic: str, ages_ms: Sequence[int]) -> None:
    """Publishes a record of each age, in a batch of its own."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    for age in ages_ms:
        timestamp = round(clock.now() * 1000) - age
        producer.produce(topic, b"value", partition=0, timestamp=timestamp)
        assert producer.flush(TIMEOUT) == 0


async def test_expired_records_are_archived_for_one_group_only(harness: Harness, kafka: KafkaClient) -> None:
    topic, topic_id = await harness.client.create(1)
    limited = await harness.client.group()
    assert await change(kafka, GROUP, limited, (MAX_AGE, "-1", SET)) == ErrorCode.INVALID_CONFIG
    assert await change(kafka, GROUP, limited, (MAX_AGE, str(HOUR), SET)) == 0
    unlimited = await harness.client.group()
    ages = (2 * HOUR, 0, 2 * HOUR, 2 * HOUR, 0)
    await asyncio.to_thread(publish, harness.address, topic, ages)
    for group, offsets in ((limited, [1, 4]), (unlimited, [0, 1, 2, 3, 4])):
        member = unique("member")
        got = await harness.client.acquire_all(group, topic, len(offsets), member)
        assert [record.offset for record in got] == offsets
        assert not any(await harness.client.acknowledge(group, member, got))
    member = unique("member")
    await asyncio.to_thread(publish, harness.address, topic, (2 * HOUR, 0))
    joined = await kafka.heartbeat(limited, member, 0, subscribed_topic_names=[topic])
    assert joined.error_code == 0
    assert await acquire(kafka, Readable(limited, topic, topic_id), member) == [(6, 6, 1)]


async def test_the_time_of_the_append_counts_in_a_topic_with_log_append_time(harness: Harness) -> None:
    topic, _ = await harness.client.create(1, message_timestamp_type="LogAppendTime")
    group = await harness.client.group(share_record_max_age_ms=str(HOUR))
    await asyncio.to_thread(publish, harness.address, topic, (2 * HOUR, 0))
    got = await harness.client.acquire_all(group, topic, 2, unique("member"))
    assert [record.offset for record in got] == [0, 1]
