"""Topics through the gateway: creation on demand, and deletion."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster_pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from tests.scenarios.gateway.wire import Connection, Topic, connect
from tests.testkit.brokers import Cluster


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    async with connect(cluster.address) as connection:
        yield connection


async def test_topics_are_auto_created_only_if_enabled(
    connection: Connection,
) -> None:
    name = f"{(await connection.topic()).name}-on-demand"
    request = pb.MetadataRequest(topics=[name], allow_auto_topic_creation=True)
    (rejected,) = (await connection.admin.Metadata(request)).topics
    assert rejected.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await allow_creation(connection, "true")
    try:
        (made,) = (await connection.admin.Metadata(request)).topics
        assert (made.error_code, len(made.partitions)) == (0, 1)
        await Topic(connection, f"{name}-by-publishing", "", 1).publish(1)
    finally:
        await allow_creation(connection, None)


async def allow_creation(connection: Connection, value: str | None) -> None:
    resource = cluster_pb.IncrementalAlterConfigsRequest.Resource(
        resource_type=cluster_pb.RESOURCE_TYPE_BROKER
    )
    resource.configs.add(name="auto.create.topics.enable", value=value)
    response = await connection.admin.IncrementalAlterConfigs(
        cluster_pb.IncrementalAlterConfigsRequest(resources=[resource])
    )
    assert not response.responses[0].error_code, response


async def test_deleted_topic_is_unknown_when_the_call_returns(connection: Connection) -> None:
    topic = await connection.topic()
    deleted = cluster_pb.DeleteTopicsRequest.Topic(name=topic.name)
    await connection.admin.DeleteTopics(cluster_pb.DeleteTopicsRequest(topics=[deleted]))
    (response,) = (await connection.admin.Metadata(pb.MetadataRequest(topics=[topic.name]))).topics
    assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
