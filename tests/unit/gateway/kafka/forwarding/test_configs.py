"""Configs: those of upstream topics are in the cluster, after the check of the right."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness
from tests.unit.gateway.kafka.forwarding.harness import OTHER, FakeUpstream

CONTROLLER = 2


async def test_configs_of_topics_are_described_by_the_cluster(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    made = [
        resource(resource_type=2, resource_name=TOPIC.name, configuration_keys=None),
        resource(resource_type=32, resource_name="group", configuration_keys=None),
        resource(resource_type=2, resource_name=OTHER.name, configuration_keys=None),
    ]
    authorizer.deny(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, OTHER.name)
    config = DescribeConfigsResponse.DescribeConfigsResourceResult(name="retention.ms", value="1")
    result = DescribeConfigsResponse.DescribeConfigsResult(
        resource_type=2, resource_name=TOPIC.name, configs=[config]
    )
    upstream.reply = lambda *_: DescribeConfigsResponse(results=[result])
    request = DescribeConfigsRequest(resources=made)
    topic, group, denied = (await harness.call(4, request, DescribeConfigsResponse)).results
    assert [(one.name, one.value) for one in topic.configs] == [("retention.ms", "1")]
    assert "share.isolation.level" in {one.name for one in group.configs}
    assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [one.resource_name for one in upstream.messages()[0].resources] == [TOPIC.name]


@pytest.mark.parametrize(
    ("request_of", "response_of"),
    [
        (AlterConfigsRequest, AlterConfigsResponse),
        (IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    ],
)
async def test_configs_of_topics_are_changed_by_the_controller(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer, request_of: Any, response_of: Any
) -> None:
    config = request_of.AlterableConfig(name="retention.ms", value="1")
    made = [
        request_of.AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])
        for name in (OTHER.name, TOPIC.name)
    ]
    authorizer.deny(AclOperation.ALTER_CONFIGS, AclResourceType.TOPIC, OTHER.name)
    result = response_of.AlterConfigsResourceResponse(resource_type=2, resource_name=TOPIC.name)
    upstream.reply = lambda *_: response_of(responses=[result])
    response = await harness.call(1, request_of(resources=made), response_of)
    assert [one.error_code for one in response.responses] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0]
    assert [node for node, _ in upstream.sent] == [CONTROLLER]
    assert [one.resource_name for one in upstream.messages()[0].resources] == [TOPIC.name]
