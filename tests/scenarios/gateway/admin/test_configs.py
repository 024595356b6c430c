"""Configs through the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster_pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from tests.scenarios.gateway.wire import Connection, connect
from tests.testkit.brokers import Cluster


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    async with connect(cluster.address) as connection:
        yield connection


async def test_configs_are_described(connection: Connection) -> None:
    topic = await connection.topic()
    group_id = await connection.group(topic)
    resource = pb.DescribeConfigsRequest.Resource
    response = await connection.admin.DescribeConfigs(
        pb.DescribeConfigsRequest(
            resources=[
                resource(resource_type=cluster_pb.RESOURCE_TYPE_GROUP, resource_name=group_id),
                resource(
                    resource_type=cluster_pb.RESOURCE_TYPE_TOPIC,
                    resource_name=topic.name,
                    configuration_keys=["retention.ms"],
                ),
                resource(resource_type=cluster_pb.RESOURCE_TYPE_TOPIC, resource_name="nowhere"),
                resource(resource_name="x"),
                resource(resource_type=cluster_pb.RESOURCE_TYPE_GROUP),
            ]
        )
    )
    group, one, nowhere, unspecified, unnamed = response.results
    reset = next(config for config in group.configs if config.name == "share.auto.offset.reset")
    assert (reset.value, reset.is_default) == ("earliest", False)
    assert [(config.name, config.is_default) for config in one.configs] == [("retention.ms", True)]
    assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unspecified.error_code == unnamed.error_code == ErrorCode.INVALID_REQUEST
