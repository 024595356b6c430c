"""IncrementalAlterConfigs: sets, resets, appends and subtracts single properties."""

from __future__ import annotations

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.unit.gateway.kafka.api.harness import Harness

GROUPS = 32
Config = IncrementalAlterConfigsRequest.AlterableConfig


def request(*configs: Config) -> IncrementalAlterConfigsRequest:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=GROUPS, resource_name="g", configs=configs
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


async def test_operations_are_forwarded(harness: Harness) -> None:
    done = pb.IncrementalAlterConfigsResponse.Resource(resource_name="g")
    harness.services.reply("IncrementalAlterConfigs", pb.IncrementalAlterConfigsResponse(responses=[done]))
    configs = [
        Config(name="set", config_operation=0, value="1"),
        Config(name="delete", config_operation=1, value=None),
        Config(name="append", config_operation=2, value="2"),
        Config(name="subtract", config_operation=3, value="3"),
    ]
    response = await harness.call(1, request(*configs), IncrementalAlterConfigsResponse)
    (result,) = response.responses
    assert (result.resource_type, result.resource_name, result.error_code) == (GROUPS, "g", ErrorCode.NONE)
    (resource,) = harness.services.only("IncrementalAlterConfigs").resources
    assert not resource.replace
    sent = [(one.name, one.HasField("value"), one.value, one.config_operation) for one in resource.configs]
    assert sent == [
        ("set", True, "1", pb.CONFIG_OPERATION_UNSPECIFIED),
        ("delete", False, "", pb.CONFIG_OPERATION_UNSPECIFIED),
        ("append", True, "2", pb.CONFIG_OPERATION_APPEND),
        ("subtract", True, "3", pb.CONFIG_OPERATION_SUBTRACT),
    ]


@pytest.mark.parametrize(
    "configs",
    [
        [Config(name="a", config_operation=9, value="1")],
        [Config(name="a", config_operation=0, value=None)],
        [Config(name="a", value="1"), Config(name="a", value="2")],
    ],
    ids=["unknown operation", "null", "duplicate"],
)
async def test_invalid_changes_are_rejected(harness: Harness, configs: list[Config]) -> None:
    response = await harness.call(0, request(*configs), IncrementalAlterConfigsResponse)
    assert response.responses[0].error_code == ErrorCode.INVALID_REQUEST
    assert not harness.services.requests
