"""Config resources and changes of configs."""

from __future__ import annotations

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.records import ConfigResource, ResourceType
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.configs import (
    Change,
    alter_resources,
    alteration,
    changes,
    config_resource,
    replacements,
)
from sharebroker_server.kafka_wire.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
)
from tests.unit.gateway.kafka.api.harness import Harness

TOPICS, BROKERS, GROUPS = 2, 4, 32


@pytest.mark.parametrize(("kind", "name"), [(TOPICS, "t"), (BROKERS, ""), (BROKERS, "1"), (GROUPS, "g")])
def test_resources_by_number(call: Call, kind: int, name: str) -> None:
    assert config_resource(call, kind, name) == ConfigResource(ResourceType(kind), name)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPICS, "in valid", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKERS, "2", ErrorCode.INVALID_REQUEST),
        (GROUPS, "", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_resources(call: Call, kind: int, name: str, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as error:
        config_resource(call, kind, name)
    assert error.value.code is code


def test_changes_become_a_request_to_the_catalog() -> None:
    config = AlterConfigsRequest.AlterableConfig(name="a", value="1")
    resource = ConfigResource(ResourceType.TOPIC, "t")
    made = alteration(resource, replacements([config]), replace=True)
    assert (made.resource_type, made.resource_name, made.replace) == (TOPICS, "t", True)
    assert list(made.configs) == [Change(name="a", value="1")]


def test_operations() -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig
    made = list(
        changes([config(name="a", config_operation=2, value="1"), config(name="b", config_operation=1)])
    )
    append = pb.CONFIG_OPERATION_APPEND
    assert made == [Change(name="a", value="1", config_operation=append), Change(name="b")]
    with pytest.raises(KafkaError, match="Duplicate config key: a"):
        list(changes([config(name="a", value="1"), config(name="a", value="2")]))


async def test_valid_resources_are_altered_together(api_harness: Harness, call: Call) -> None:
    api_harness.services.reply(
        "IncrementalAlterConfigs",
        lambda request: pb.IncrementalAlterConfigsResponse(
            responses=[
                pb.IncrementalAlterConfigsResponse.Resource(resource_name=one.resource_name)
                for one in request.resources
            ]
        ),
    )
    named = [(2, "a"), (2, "b"), (2, "b"), (32, "g")]
    resources = [
        AlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in named
    ]
    make = AlterConfigsResponse.AlterConfigsResourceResponse
    results = await alter_resources(call, resources, replacements, make, validate_only=True, replace=True)
    assert [(one.resource_name, one.error_code) for one in results] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
        ("g", ErrorCode.NONE),
    ]
    sent = api_harness.services.only("IncrementalAlterConfigs")
    assert [(one.resource_name, one.replace) for one in sent.resources] == [("a", True), ("g", True)]
    assert sent.validate_only
