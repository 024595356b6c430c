"""Metadata: brokers, topics by name or id, and errors per topic."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.catalog.topics import STATE_TOPIC
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.kafka_wire.messages import MetadataRequest, MetadataResponse
from sharebroker_server.rpc.errors import wire
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


def create_on_demand(harness: Harness, partitions: str = "1") -> None:
    """Enables creation on demand; the catalog creates topics, except "refused"."""
    config = {"auto.create.topics.enable": "true", "num.partitions": partitions}
    harness.gateway.catalog.broker = BrokerConfig.of(config)

    def create(request: cluster.CreateTopicsRequest) -> cluster.CreateTopicsResponse:
        response = cluster.CreateTopicsResponse()
        for position, topic in enumerate(request.topics, 10):
            if topic.name == "refused":
                response.topics.add(name=topic.name, error_code=wire(ErrorCode.POLICY_VIOLATION))
                continue
            made = replace(TOPIC, topic_id=f"{hash(topic.name) % 10**20:021}A", name=topic.name)
            harness.gateway.catalog.catalog.apply(TopicRecord(made), position)
            response.topics.add(name=topic.name, topic_id=made.topic_id)
        return response

    harness.services.reply("CreateTopics", create)


async def named(harness: Harness, *names: str) -> dict[str, ErrorCode]:
    """Returns the error codes of topics that Metadata may create."""
    response = await harness.call(9, MetadataRequest(topics=[Topic(name=n) for n in names]), MetadataResponse)
    return {topic.name or "": ErrorCode(topic.error_code) for topic in response.topics}


async def test_missing_topics_are_created_by_one_request(harness: Harness) -> None:
    create_on_demand(harness)
    assert await named(harness, "a", TOPIC.name, "refused", "in valid", STATE_TOPIC, "b") == {
        "a": ErrorCode.NONE,
        TOPIC.name: ErrorCode.NONE,
        "refused": ErrorCode.POLICY_VIOLATION,
        "in valid": ErrorCode.INVALID_TOPIC_EXCEPTION,
        STATE_TOPIC: ErrorCode.NONE,
        "b": ErrorCode.NONE,
    }
    assert [one.name for one in harness.services.only("CreateTopics").topics] == ["a", "refused", "b"]


@pytest.mark.parametrize(("partitions", "created"), [("1", 100), ("1000", 10), ("10000", 1)])
async def test_a_request_creates_a_limited_number_of_topics(
    harness: Harness, partitions: str, created: int
) -> None:
    create_on_demand(harness, partitions)
    names = [f"t{number}" for number in range(250)]
    first = await named(harness, *names)
    assert [*first.values()] == [ErrorCode.NONE] * created + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (
        250 - created
    )
    assert [*(await named(harness, *names)).values()].count(ErrorCode.NONE) == 2 * created


async def test_failed_creation_is_the_error_of_each_topic(harness: Harness) -> None:
    create_on_demand(harness)
    harness.services.fail("CreateTopics", ErrorCode.POLICY_VIOLATION)
    assert await named(harness, "a", TOPIC.name, "b") == {
        "a": ErrorCode.POLICY_VIOLATION,
        TOPIC.name: ErrorCode.NONE,
        "b": ErrorCode.POLICY_VIOLATION,
    }


async def test_topics_are_created_only_if_both_sides_allow_it(harness: Harness) -> None:
    assert await named(harness, "a") == {"a": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    create_on_demand(harness)
    request = MetadataRequest(topics=[Topic(name="a")], allow_auto_topic_creation=False)
    (topic,) = (await harness.call(9, request, MetadataResponse)).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not harness.services.requests["CreateTopics"]
