"""Topics and settings through the RPCs, and what every process sees of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.records import ConfigResource, ResourceType
from tests.scenarios.group_coordinator.process import CONTEXT, Process, World, code


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.close()


@pytest.fixture
async def process(world: World) -> Process:
    return await world.start(1)


async def test_topics_are_created_each_with_its_result(process: Process) -> None:
    request = pb.CreateTopicsRequest()
    request.topics.add(name="a", num_partitions=2, configs={"retention.ms": "5"})
    request.topics.add(name="b c")
    request.topics.add(name="a")
    answer = await process.until(lambda: process.cluster.CreateTopics(request, CONTEXT))
    made, illegal, twice = answer.topics
    assert (made.error_code, made.num_partitions, dict(made.configs)) == (0, 2, {"retention.ms": "5"})
    assert len(made.topic_id) == 22
    assert (illegal.name, code(illegal)) == ("b c", ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert code(twice) is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_every_process_sees_topics_whoever_made_them(world: World, process: Process) -> None:
    other = await world.start(2)
    topic_id = await process.create("a", 2)
    await other.follower.wait_for(lambda catalog: catalog.topic_by_id(topic_id) is not None, 5)


async def test_validating_only_makes_nothing(process: Process) -> None:
    request = pb.CreateTopicsRequest(validate_only=True)
    request.topics.add(name="a")
    (topic,) = (await process.until(lambda: process.cluster.CreateTopics(request, CONTEXT))).topics
    assert not topic.error_code
    await process.create("b", 1)
    assert process.follower.topic("a") is None


async def test_topics_grow_and_go(process: Process) -> None:
    topic_id = await process.create("a", 2)
    more = pb.CreatePartitionsRequest()
    more.topics.add(name="a", count=4)
    more.topics.add(name="zzz", count=4)
    grown, unknown = (await process.cluster.CreatePartitions(more, CONTEXT)).results
    assert (code(grown), code(unknown)) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    await process.follower.wait_for(
        lambda catalog: [topic.partitions for topic in catalog.topics()] == [4], 5
    )
    gone = pb.DeleteTopicsRequest()
    gone.topics.add(topic_id=topic_id)
    gone.topics.add(name="zzz")
    deleted, unknown_too = (await process.cluster.DeleteTopics(gone, CONTEXT)).topics
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (0, "a", topic_id)
    assert (code(unknown_too), unknown_too.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "zzz")
    await process.follower.wait_for(lambda catalog: catalog.is_deleted(topic_id), 5)


async def test_settings_come_into_force_everywhere(world: World, process: Process) -> None:
    other = await world.start(2)
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
    answer = await process.until(lambda: process.cluster.IncrementalAlterConfigs(request, CONTEXT))
    assert [(some.resource_name, some.error_code) for some in answer.responses] == [
        ("g", 0),
        ("zzz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nothing", ErrorCode.INVALID_REQUEST),
        ("edited", ErrorCode.INVALID_REQUEST),
        ("edited", ErrorCode.INVALID_REQUEST),
    ]
    resource = ConfigResource(ResourceType.GROUP, "g")
    await other.follower.wait_for(lambda catalog: bool(catalog.configs(resource)), 5)
    assert other.follower.group_config("g").share_auto_offset_reset == "earliest"


async def test_process_without_the_catalog_refuses_the_call_as_a_whole(world: World) -> None:
    process = await world.start(1)
    await process.catalog_host.stop()
    request = pb.CreateTopicsRequest()
    request.topics.add(name="a")
    with pytest.raises(KafkaError) as caught:
        await process.cluster.CreateTopics(request, CONTEXT)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR


async def test_cluster_is_named_by_whoever_owns_the_catalog(world: World, process: Process) -> None:
    other = await world.start(2)
    async with asyncio.timeout(10):
        await asyncio.gather(process.cluster.name_cluster(), other.cluster.name_cluster())
    assert len(process.follower.catalog.cluster_id) == 22
    assert other.follower.catalog.cluster_id == process.follower.catalog.cluster_id
