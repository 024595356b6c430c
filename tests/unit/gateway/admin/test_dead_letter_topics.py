"""A dead letter topic that its group consumes is refused; other resources of the request are changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.gateway.admin.configs import alter_configs
from tests.unit.gateway.kafka.api.harness import Harness

NAME = "errors.deadletterqueue.topic.name"


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness()
    described = group.ShareGroupDescribeResponse.DescribedGroup
    member = group.ShareGroupDescribeResponse.Member(subscribed_topic_names=["orders"])

    def describe(request: Any) -> group.ShareGroupDescribeResponse:
        groups = [described(group_id=group_id, members=[member]) for group_id in request.group_ids]
        return group.ShareGroupDescribeResponse(groups=groups)

    def alter(request: Any) -> pb.IncrementalAlterConfigsResponse:
        result = pb.IncrementalAlterConfigsResponse.Resource
        return pb.IncrementalAlterConfigsResponse(
            responses=[
                result(resource_type=one.resource_type, resource_name=one.resource_name)
                for one in request.resources
            ]
        )

    harness.services.reply("ShareGroupDescribe", describe)
    harness.services.reply("IncrementalAlterConfigs", alter)
    yield harness
    await harness.close()


def resource(name: str, topic: str, key: str = NAME) -> pb.IncrementalAlterConfigsRequest.Resource:
    config = pb.IncrementalAlterConfigsRequest.Config(name=key, value=topic)
    return pb.IncrementalAlterConfigsRequest.Resource(
        resource_type=pb.RESOURCE_TYPE_GROUP, resource_name=name, configs=[config]
    )


async def test_a_topic_that_the_group_consumes_is_refused(harness: Harness) -> None:
    resources = [resource("a", "dlq.t"), resource("b", " orders "), resource("c", "dlq.t")]
    request = pb.IncrementalAlterConfigsRequest(resources=resources, validate_only=True)
    response = await alter_configs(harness.gateway, request, Deadline(5))
    results = [(one.resource_name, one.error_code) for one in response.responses]
    assert results == [("a", 0), ("b", ErrorCode.INVALID_CONFIG), ("c", 0)]
    assert "consumes topic 'orders'" in response.responses[1].error_message
    sent = harness.services.only("IncrementalAlterConfigs")
    assert ([one.resource_name for one in sent.resources], sent.validate_only) == (["a", "c"], True)


@pytest.mark.parametrize(("topic", "key"), [("", NAME), ("orders", "share.isolation.level")])
async def test_other_changes_describe_no_group(harness: Harness, topic: str, key: str) -> None:
    request = pb.IncrementalAlterConfigsRequest(resources=[resource("a", topic, key)], validate_only=True)
    response = await alter_configs(harness.gateway, request, Deadline(5))
    assert [one.error_code for one in response.responses] == [0]
    assert not harness.services.requests["ShareGroupDescribe"]
