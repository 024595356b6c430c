"""Metadata: brokers, topics by name or id, and errors per topic."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.kafka_wire.messages import MetadataRequest, MetadataResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

Topic = MetadataRequest.MetadataRequestTopic


async def test_brokers_and_topics_are_described(harness: Harness) -> None:
    for version in (0, 1, 9, 13):
        request = MetadataRequest(topics=[Topic(name=TOPIC.name)], allow_auto_topic_creation=False)
        response = await harness.call(version, request, MetadataResponse)
        assert [(one.node_id, one.host, one.port) for one in response.brokers] == [(1, "127.0.0.1", 9092)]
        assert response.cluster_id == ("the cluster" if version >= 2 else None)
        assert response.controller_id == (1 if version >= 1 else -1)
        (topic,) = response.topics
        assert (topic.error_code, topic.name) == (ErrorCode.NONE, TOPIC.name)
        assert topic.topic_id == (TOPIC.topic_id if version >= 10 else "")
        assert [(one.partition_index, one.leader_id) for one in topic.partitions] == [(0, 1), (1, 1)]
        assert topic.partitions[0].replica_nodes == topic.partitions[0].isr_nodes == [1]


@pytest.mark.parametrize(("version", "empty", "null"), [(0, 3, 3), (1, 0, 3), (12, 0, 3)])
async def test_all_topics_are_an_empty_list_in_version_0_and_null_later(
    harness: Harness, version: int, empty: int, null: int
) -> None:
    response = await harness.call(version, MetadataRequest(topics=[]), MetadataResponse)
    assert len(response.topics) == empty
    response = await harness.call(version, MetadataRequest(topics=None), MetadataResponse)
    assert len(response.topics) == null


async def test_topics_by_id_from_version_12_on(harness: Harness) -> None:
    unknown = "C" * 21 + "A"
    topics = [Topic(name=None, topic_id=TOPIC.topic_id), Topic(name=None, topic_id=unknown)]
    response = await harness.call(12, MetadataRequest(topics=topics), MetadataResponse)
    assert [(one.name, one.topic_id, one.error_code) for one in response.topics] == [
        (TOPIC.name, TOPIC.topic_id, ErrorCode.NONE),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    response = await harness.call(11, MetadataRequest(topics=topics), MetadataResponse)
    assert [(one.name, one.error_code) for one in response.topics] == [("", ErrorCode.INVALID_REQUEST)] * 2


async def test_unknown_and_invalid_names_are_errors_of_their_topic(harness: Harness) -> None:
    topics = [Topic(name="unknown"), Topic(name="in valid")]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    response = await harness.call(9, request, MetadataResponse)
    assert [(one.name, one.error_code) for one in response.topics] == [
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("in valid", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


async def test_authorized_operations_are_returned_on_request(harness: Harness) -> None:
    request = MetadataRequest(
        topics=[Topic(name=TOPIC.name)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    response = await harness.call(8, request, MetadataResponse)
    assert response.cluster_authorized_operations > 0
    assert response.topics[0].topic_authorized_operations > 0


async def test_a_topic_named_again_is_described_once(harness: Harness) -> None:
    topics = [Topic(name=TOPIC.name), Topic(name="unknown"), Topic(name=TOPIC.name)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    response = await harness.call(9, request, MetadataResponse)
    assert [topic.name for topic in response.topics] == [TOPIC.name, "unknown"]


@pytest.mark.parametrize("version", range(14))
async def test_cached_topics_are_the_same_in_every_version(harness: Harness, version: int) -> None:
    request = MetadataRequest(topics=[Topic(name=TOPIC.name)], allow_auto_topic_creation=False)
    first = await harness.call(version, request, MetadataResponse)
    assert await harness.call(version, request, MetadataResponse) == first
    assert [one.partition_index for one in first.topics[0].partitions] == [0, 1]


async def test_other_calls_are_served_between_portions(harness: Harness) -> None:
    topics = [replace(TOPIC, topic_id=f"{n:021}A", name=f"t{n:02}", partitions=600) for n in range(20)]
    for position, topic in enumerate(topics, 10):
        harness.gateway.catalog.catalog.apply(TopicRecord(topic), position)
    everything = asyncio.ensure_future(harness.call(9, MetadataRequest(topics=None), MetadataResponse))
    await asyncio.sleep(0)
    request = MetadataRequest(topics=[Topic(name=TOPIC.name)], allow_auto_topic_creation=False)
    await harness.call(9, request, MetadataResponse)
    assert not everything.done()
    assert len((await everything).topics) == 23
