"""Kafka's consumer groups, which are not served: whoever wants one hears it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import confluent_kafka.admin
import kafka as kafka_python
import kafka.errors
import pytest

from libs.catalog.internal import OFFSETS_TOPIC, OFFSETS_TOPIC_ID
from sharebroker.errors import ErrorCode
from tests.integration.kafka.logs import fetch_one, list_offset
from tests.integration.kafka.world import World
from tests.support.client import TIMEOUT, unique
from tests.support.kafka_client import KafkaClient, part

OFFSET_FETCH, JOIN_GROUP, CONSUMER_GROUP_HEARTBEAT = 9, 11, 68


def join_with_aiokafka(address: str, topic: str) -> None:
    async def join() -> None:
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=address, group_id=unique("classic"))
        try:
            async with asyncio.timeout(TIMEOUT):
                await consumer.start()
        finally:
            await consumer.stop()

    asyncio.run(join())


def join_with_kafka_python(address: str, topic: str) -> None:
    consumer = kafka_python.KafkaConsumer(
        topic, bootstrap_servers=address, group_id=unique("classic"), consumer_timeout_ms=TIMEOUT * 1000
    )
    try:
        next(consumer)
    finally:
        consumer.close()


def join_with_librdkafka(address: str, topic: str, **settings: str) -> None:
    consumer = librdkafka(address, **settings)
    consumer.subscribe([topic])
    try:
        message = consumer.poll(TIMEOUT)
        assert message is not None
        error = message.error()
        assert error is not None
        raise confluent_kafka.KafkaException(error)
    finally:
        consumer.close()


def join_as_a_fixed_member_with_librdkafka(address: str, topic: str) -> None:
    join_with_librdkafka(address, topic, group__instance__id="fixed")


def join_the_new_way_with_librdkafka(address: str, topic: str) -> None:
    join_with_librdkafka(address, topic, group__protocol="consumer")


def librdkafka(address: str, **settings: Any) -> confluent_kafka.Consumer:
    names = {name.replace("__", "."): value for name, value in settings.items()}
    return confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": unique("group"), **names})


@pytest.mark.parametrize(
    "join",
    [
        join_with_aiokafka,
        join_with_kafka_python,
        join_with_librdkafka,
        join_as_a_fixed_member_with_librdkafka,
        join_the_new_way_with_librdkafka,
    ],
)
async def test_consumers_that_subscribe_hear_at_once_that_they_cannot(
    world: World, join: Callable[[str, str], None]
) -> None:
    topic, _ = await world.client.create()
    errors = (aiokafka.errors.KafkaError, kafka.errors.KafkaError, confluent_kafka.KafkaException)
    with pytest.raises(errors, match=r"(?i)unsupported ?version|version not supported"):
        await asyncio.to_thread(join, world.address, topic)


async def test_a_consumer_with_a_group_id_begins_where_its_settings_say(world: World) -> None:
    """It asks for committed offsets, and there are none; it cannot commit any, and hears so."""
    topic, _ = await world.client.create()
    await world.client.publish(topic, ["first"])
    consumer = librdkafka(world.address, auto__offset__reset="earliest", fetch__wait__max__ms=100)
    try:
        at = confluent_kafka.TopicPartition(topic, 0)
        consumer.assign([at])
        [message] = await asyncio.to_thread(consumer.consume, 1, TIMEOUT)
        assert message.value() == b"first"
        [committed] = consumer.committed([at], TIMEOUT)
        assert committed.offset == confluent_kafka.OFFSET_INVALID
        with pytest.raises(confluent_kafka.KafkaException, match="not supported by broker"):
            consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()


def commit_with_aiokafka(address: str, topic: str) -> None:
    async def commit() -> None:
        at = aiokafka.TopicPartition(topic, 0)
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, group_id=unique("classic"))
        try:
            async with asyncio.timeout(TIMEOUT):
                await consumer.start()
                consumer.assign([at])
                assert await consumer.committed(at) is None
                await consumer.commit({at: 0})
        finally:
            await consumer.stop()

    asyncio.run(commit())


def commit_with_kafka_python(address: str, topic: str) -> None:
    at = kafka_python.TopicPartition(topic, 0)
    consumer = kafka_python.KafkaConsumer(bootstrap_servers=address, group_id=unique("classic"))
    try:
        consumer.assign([at])
        assert consumer.committed(at) is None
        consumer.commit({at: kafka_python.OffsetAndMetadata(0, "", -1)})
    finally:
        consumer.close()


def commit_in_a_transaction_of_librdkafka(address: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": unique("id")})
    consumer = librdkafka(address)
    try:
        producer.init_transactions(TIMEOUT)
        producer.begin_transaction()
        offsets = [confluent_kafka.TopicPartition(topic, 0, 0)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT)
    finally:
        consumer.close()
        producer.purge()


def commit_with_librdkafkas_admin(address: str, topic: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
    at = confluent_kafka.TopicPartition(topic, 0, 0)
    asked = confluent_kafka.ConsumerGroupTopicPartitions(unique("group"), [at])
    for future in admin.alter_consumer_group_offsets([asked]).values():
        future.result(TIMEOUT)


@pytest.mark.parametrize(
    "commit",
    [
        commit_with_aiokafka,
        commit_with_kafka_python,
        commit_in_a_transaction_of_librdkafka,
        commit_with_librdkafkas_admin,
    ],
)
async def test_who_commits_offsets_hears_at_once_that_it_cannot(
    world: World, commit: Callable[[str, str], None]
) -> None:
    topic, _ = await world.client.create()
    errors = (aiokafka.errors.KafkaError, kafka.errors.KafkaError, confluent_kafka.KafkaException)
    with pytest.raises(errors, match=r"not supported by broker|does not support|IncompatibleBrokerVersion"):
        await asyncio.to_thread(commit, world.address, topic)


@pytest.mark.parametrize("version", range(1, 11))
async def test_nothing_is_committed(kafka: KafkaClient, version: int) -> None:
    if version < 8:
        topic = part(OFFSET_FETCH, "OffsetFetchRequestTopic", name="any", partition_indexes=[0, 7])
        found = await kafka.ask(OFFSET_FETCH, version, group_id="any", topics=[topic])
    else:
        name = {"name": "any"} if version < 10 else {}
        topic = part(OFFSET_FETCH, "OffsetFetchRequestTopics", partition_indexes=[0, 7], **name)
        group = part(OFFSET_FETCH, "OffsetFetchRequestGroup", group_id="any", topics=[topic])
        all_of_it = part(OFFSET_FETCH, "OffsetFetchRequestGroup", group_id="other", topics=None)
        answer = await kafka.ask(OFFSET_FETCH, version, groups=[group, all_of_it])
        found, everything = answer.groups
        assert (everything.group_id, everything.topics) == ("other", [])
    (given,) = found.topics
    assert found.error_code == 0
    assert [(one.partition_index, one.committed_offset, one.error_code) for one in given.partitions] == [
        (0, -1, 0),
        (7, -1, 0),
    ]


async def test_their_topic_has_nothing_to_read(kafka: KafkaClient) -> None:
    """Only who asks for it by name sees which broker coordinates which groups."""
    found = await list_offset(kafka, OFFSETS_TOPIC, -2)
    by_name = await fetch_one(kafka, OFFSETS_TOPIC, OFFSETS_TOPIC_ID, 0, version=12)
    by_id = await fetch_one(kafka, OFFSETS_TOPIC, OFFSETS_TOPIC_ID, 0)
    assert found.error_code == by_name.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", range(10))
async def test_joins_are_refused(kafka: KafkaClient, version: int) -> None:
    fields = {"group_id": "any", "session_timeout_ms": 10_000, "member_id": "me"}
    answer = await kafka.ask(JOIN_GROUP, version, **fields, protocol_type="consumer", protocols=[])
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNSUPPORTED_VERSION, "me")


@pytest.mark.parametrize("version", range(2))
async def test_heartbeats_of_consumer_groups_are_refused(kafka: KafkaClient, version: int) -> None:
    fields = {"group_id": "any", "member_id": "me", "member_epoch": 0}
    answer = await kafka.ask(CONSUMER_GROUP_HEARTBEAT, version, **fields)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "share groups" in answer.error_message
