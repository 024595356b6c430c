"""Requests of old versions: fields they must not carry, and errors that they do not define."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness
from tests.support import kafka_client
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient, part
from tests.testkit.brokers import Cluster, one_process
from tests.unit.record_log.batches import batch

PRODUCE, METADATA, FIND_COORDINATOR, CREATE_TOPICS, DELETE_TOPICS = 0, 3, 10, 19, 20
ZSTD = 4
NOTHING = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture(scope="module")
def no_deletion() -> Iterator[Cluster]:
    with one_process("--set", "delete.topic.enable=false") as cluster:
        yield cluster


@pytest.fixture
async def undeleting(no_deletion: Cluster) -> AsyncIterator[KafkaClient]:
    async with kafka_client.connected(no_deletion.kafka) as client:
        yield client


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (1, ErrorCode.INVALID_REQUEST),
        (2, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.TOPIC_DELETION_DISABLED),
        (6, ErrorCode.TOPIC_DELETION_DISABLED),
    ],
)
async def test_disabled_topic_deletion_has_an_error_per_version(
    undeleting: KafkaClient, version: int, error: ErrorCode
) -> None:
    name = unique("kept")
    asked = part(CREATE_TOPICS, "CreatableTopic", name=name, num_partitions=1, replication_factor=1)
    created = await undeleting.ask(CREATE_TOPICS, 5, topics=[asked], timeout_ms=5000)
    assert created.topics[0].error_code == 0
    named: dict[str, Any] = {"topic_names": [name]}
    if version >= 6:
        named = {"topics": [part(DELETE_TOPICS, "DeleteTopicState", name=name)]}
    response = await undeleting.ask(DELETE_TOPICS, version, **named, timeout_ms=5000)
    assert [one.error_code for one in response.responses] == [error]


@pytest.mark.parametrize("version", range(3, 14))
async def test_zstd_is_rejected_in_old_produce_versions(
    harness: Harness, kafka: KafkaClient, version: int
) -> None:
    topic, topic_id = await harness.client.create()
    asked = part(PRODUCE, "PartitionProduceData", index=0, records=batch(codec=ZSTD))
    named = {"topic_id": topic_id} if version >= 13 else {"name": topic}
    topics = [part(PRODUCE, "TopicProduceData", partition_data=[asked], **named)]
    response = await kafka.ask(PRODUCE, version, acks=-1, timeout_ms=5000, topic_data=topics)
    (written,) = response.responses[0].partition_responses
    rejected = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1
    assert (written.error_code, written.base_offset) == (rejected if version < 7 else (0, 0))


@pytest.mark.parametrize("version", range(1, 7))
async def test_share_coordinator_lookup_is_rejected_in_old_versions(kafka: KafkaClient, version: int) -> None:
    key = f"group:{NOTHING}:0"
    if version < 4:
        found = await kafka.ask(FIND_COORDINATOR, version, key_type=2, key=key)
    else:
        response = await kafka.ask(FIND_COORDINATOR, version, key_type=2, coordinator_keys=[key])
        (found,) = response.coordinators
    assert found.error_code == (ErrorCode.INVALID_REQUEST if version < 6 else 0)


@pytest.mark.parametrize("version", range(10, 14))
async def test_metadata_by_id_is_rejected_in_old_versions(
    harness: Harness, kafka: KafkaClient, version: int
) -> None:
    name, topic_id = await harness.client.create()
    known = version >= 12
    asked = part(METADATA, "MetadataRequestTopic", name=None if known else name, topic_id=topic_id)
    (found,) = (await kafka.ask(METADATA, version, topics=[asked])).topics
    assert (found.error_code, found.name) == ((0, name) if known else (ErrorCode.INVALID_REQUEST, name))
    assert len(found.partitions) == known
