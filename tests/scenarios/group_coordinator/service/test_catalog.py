"""Topics and configs through the RPCs, and in every broker's metadata cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.catalog.upstream_rules import FollowCluster
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster, code


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    yield cluster
    await cluster.close()


@pytest.fixture
async def broker(cluster: Cluster) -> Broker:
    return await cluster.start(1)


async def test_topics_are_created_each_with_its_result(broker: Broker) -> None:
    request = pb.CreateTopicsRequest()
    request.topics.add(name="a", num_partitions=2, configs={"retention.ms": "5"})
    request.topics.add(name="b c")
    request.topics.add(name="a")
    response = await broker.until(lambda: broker.catalog.CreateTopics(request, CONTEXT))
    made, illegal, twice = response.topics
    assert (made.error_code, made.num_partitions, dict(made.configs)) == (0, 2, {"retention.ms": "5"})
    assert len(made.topic_id) == 22
    assert (illegal.name, code(illegal)) == ("b c", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert code(twice) is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_every_process_lists_all_topics(cluster: Cluster, broker: Broker) -> None:
    other = await cluster.start(2)
    topic_id = await broker.create("a", 2)
    await other.follower.wait_for(lambda catalog: catalog.topic_by_id(topic_id) is not None, 5)


async def test_validate_only_changes_nothing(broker: Broker) -> None:
    request = pb.CreateTopicsRequest(validate_only=True)
    request.topics.add(name="a")
    (topic,) = (await broker.until(lambda: broker.catalog.CreateTopics(request, CONTEXT))).topics
    assert not topic.error_code
    await broker.create("b", 1)
    assert broker.follower.topic("a") is None


async def test_topics_get_partitions_and_are_deleted(broker: Broker) -> None:
    topic_id = await broker.create("a", 2)
    more = pb.CreatePartitionsRequest()
    more.topics.add(name="a", count=4)
    more.topics.add(name="zzz", count=4)
    grown, unknown = (await broker.catalog.CreatePartitions(more, CONTEXT)).results
    assert (code(grown), code(unknown)) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    await broker.follower.wait_for(lambda catalog: [topic.partitions for topic in catalog.topics()] == [4], 5)
    gone = pb.DeleteTopicsRequest()
    gone.topics.add(topic_id=topic_id)
    gone.topics.add(name="zzz")
    deleted, unknown_too = (await broker.catalog.DeleteTopics(gone, CONTEXT)).topics
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (0, "a", topic_id)
    assert (code(unknown_too), unknown_too.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "zzz")
    await broker.follower.wait_for(lambda catalog: catalog.is_deleted(topic_id), 5)


async def test_configs_take_effect_on_every_process(cluster: Cluster, broker: Broker) -> None:
    other = await cluster.start(2)
    request = pb.IncrementalAlterConfigsRequest()
    group = request.resources.add(resource_type=pb.RESOURCE_TYPE_GROUP, resource_name="g")
    group.configs.add(name="share.auto.offset.reset", value="earliest")
    group.configs.add(name="share.isolation.level")
    request.resources.add(resource_type=pb.RESOURCE_TYPE_TOPIC, resource_name="zzz")
    request.resources.add(resource_name="nothing")
    for edit in (
        pb.IncrementalAlterConfigsRequest.Config(
            name="share.auto.offset.reset", config_operation=pb.CONFIG_OPERATION_APPEND
        ),
        pb.IncrementalAlterConfigsRequest.Config(
            name="share.auto.offset.reset", value="x", config_operation=cast("Any", 7)
        ),
    ):
        request.resources.add(resource_type=pb.RESOURCE_TYPE_GROUP, resource_name="edited", configs=[edit])
    response = await broker.until(lambda: broker.catalog.IncrementalAlterConfigs(request, CONTEXT))
    assert [(some.resource_name, some.error_code) for some in response.responses] == [
        ("g", 0),
        ("zzz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nothing", ErrorCode.INVALID_REQUEST),
        ("edited", ErrorCode.INVALID_REQUEST),
        ("edited", ErrorCode.INVALID_REQUEST),
    ]
    resource = ConfigResource(ResourceType.GROUP, "g")
    await other.follower.wait_for(lambda catalog: bool(catalog.configs(resource)), 5)
    assert other.follower.group_config("g").share_auto_offset_reset == "earliest"


async def test_process_without_the_catalog_rejects_the_call(cluster: Cluster) -> None:
    broker = await cluster.start(1)
    await broker.catalog_host.stop()
    request = pb.CreateTopicsRequest()
    request.topics.add(name="a")
    with pytest.raises(KafkaError) as caught:
        await broker.catalog.CreateTopics(request, CONTEXT)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR


async def test_owner_of_the_catalog_names_the_cluster(cluster: Cluster, broker: Broker) -> None:
    other = await cluster.start(2)
    async with asyncio.timeout(10):
        await asyncio.gather(broker.catalog.name_cluster({}), other.catalog.name_cluster({}))
    assert len(broker.follower.catalog.cluster_id) == 22
    assert other.follower.catalog.cluster_id == broker.follower.catalog.cluster_id


async def test_addresses_without_a_response_are_removed_at_a_start_without_them(broker: Broker) -> None:
    async with asyncio.timeout(10):
        await broker.catalog.name_cluster({}, "misspelt:9092")
        assert broker.follower.catalog.upstream_addresses == "misspelt:9092"
        await broker.catalog.name_cluster({})
    assert broker.follower.catalog.upstream_addresses == ""
    await broker.create("own", 1)


async def test_the_addresses_of_a_cluster_that_responded_stay(broker: Broker) -> None:
    async with asyncio.timeout(10):
        await broker.catalog.name_cluster({}, "b1:9092")
        await broker.until(lambda: broker.catalog_host.shard(0).submit(FollowCluster("b1:9092", "kafka-1")))
        await broker.follower.wait_for(lambda catalog: bool(catalog.upstream_cluster_id), 5)
        await broker.catalog.name_cluster({})
    assert broker.follower.catalog.upstream_addresses == "b1:9092"
