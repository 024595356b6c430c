"""Config resources and changes of configs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.gateway.kafka.call import Call, Refusal
from sharebroker_server.gateway.kafka.configs import Change, alter_resources, changes, config_resource
from sharebroker_server.kafka_wire.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
)
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.kafka.api.harness import Harness

TOPICS, BROKERS, GROUPS = 2, 4, 32
REFUSE = Refusal(AlterConfigsResponse, {"responses": "resources"})


def accepted(request: pb.IncrementalAlterConfigsRequest) -> pb.IncrementalAlterConfigsResponse:
    resource = pb.IncrementalAlterConfigsResponse.Resource
    return pb.IncrementalAlterConfigsResponse(
        responses=[resource(resource_name=one.resource_name) for one in request.resources]
    )


def altering(
    harness: Harness, named: Sequence[tuple[int, str]], *configs: AlterConfigsRequest.AlterableConfig
) -> Call[AlterConfigsRequest]:
    """A call that only validates changes of resources."""
    resources = [
        AlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        for kind, name in named
    ]
    return harness.call_of(AlterConfigsRequest(resources=resources, validate_only=True))


@pytest.mark.parametrize(("kind", "name"), [(TOPICS, "t"), (BROKERS, ""), (BROKERS, "1"), (GROUPS, "g")])
def test_resource_types_have_kafkas_numbers(call: Call, kind: int, name: str) -> None:
    assert config_resource(call, AclOperation.ALTER_CONFIGS, kind, name) == ConfigResource(
        ResourceType(kind), name
    )


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPICS, "in valid", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKERS, "2", ErrorCode.INVALID_REQUEST),
        (GROUPS, "", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_resources_are_rejected(call: Call, kind: int, name: str, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as error:
        config_resource(call, AclOperation.ALTER_CONFIGS, kind, name)
    assert error.value.code is code


async def test_changes_become_a_request_to_the_catalog(api_harness: Harness) -> None:
    api_harness.services.reply("IncrementalAlterConfigs", accepted)
    config = AlterConfigsRequest.AlterableConfig(name="a", value="1")
    await alter_resources(altering(api_harness, [(TOPICS, "t")], config), REFUSE, replace=True)
    (made,) = api_harness.services.only("IncrementalAlterConfigs").resources
    assert (made.resource_type, made.resource_name, made.replace) == (TOPICS, "t", True)
    assert list(made.configs) == [Change(name="a", value="1")]


def test_operations_are_converted() -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig
    made = list(
        changes([config(name="a", config_operation=2, value="1"), config(name="b", config_operation=1)])
    )
    append = pb.CONFIG_OPERATION_APPEND
    assert made == [Change(name="a", value="1", config_operation=append), Change(name="b")]
    with pytest.raises(KafkaError, match="Error due to duplicate config keys"):
        list(changes([config(name="a", value="1"), config(name="a", value="2")]))


async def test_valid_resources_are_altered_together(api_harness: Harness) -> None:
    api_harness.services.reply("IncrementalAlterConfigs", accepted)
    call = altering(api_harness, [(2, "a"), (2, "b"), (2, "b"), (32, "g")])
    results = await alter_resources(call, REFUSE, replace=True)
    assert [(one.resource_name, one.error_code, one.error_message is None) for one in results] == [
        ("a", ErrorCode.NONE, True),
        ("b", ErrorCode.INVALID_REQUEST, False),
        ("b", ErrorCode.INVALID_REQUEST, False),
        ("g", ErrorCode.NONE, True),
    ]
    sent = api_harness.services.only("IncrementalAlterConfigs")
    assert [(one.resource_name, one.replace) for one in sent.resources] == [("a", True), ("g", True)]
    assert sent.validate_only


@pytest.mark.parametrize(
    ("kind", "name", "protected", "code"),
    [
        (2, "in valid", AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (32, "g", AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (4, "", AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_each_type_of_resource_is_protected(
    api_harness: Harness, call: Call, kind: int, name: str, protected: AclResourceType, code: ErrorCode
) -> None:
    authorizer = api_harness.gateway.authorizer = TableAuthorizer()
    authorizer.deny(AclOperation.ALTER_CONFIGS, protected)
    with pytest.raises(KafkaError) as error:
        config_resource(call, AclOperation.ALTER_CONFIGS, kind, name)
    assert error.value.code is code
