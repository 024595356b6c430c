"""AlterConfigs: replaces the configs of each resource."""

from __future__ import annotations

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import AlterConfigsRequest, AlterConfigsResponse
from tests.unit.gateway.kafka.api.harness import Harness

TOPICS = 2


def resource(name: str, value: str | None = "1000") -> AlterConfigsRequest.AlterConfigsResource:
    config = AlterConfigsRequest.AlterableConfig(name="retention.ms", value=value)
    return AlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPICS, resource_name=name, configs=[config]
    )


def reply(request: pb.IncrementalAlterConfigsRequest) -> pb.IncrementalAlterConfigsResponse:
    done = [
        pb.IncrementalAlterConfigsResponse.Resource(
            resource_type=one.resource_type, resource_name=one.resource_name
        )
        for one in request.resources
    ]
    return pb.IncrementalAlterConfigsResponse(responses=done)


async def test_each_resource_is_replaced_and_has_its_own_result(harness: Harness) -> None:
    harness.services.reply("IncrementalAlterConfigs", reply)
    resources = [resource("good"), resource("null", None), resource("twice"), resource("twice")]
    request = AlterConfigsRequest(resources=resources, validate_only=True)
    response = await harness.call(2, request, AlterConfigsResponse)
    assert [(one.resource_type, one.resource_name, one.error_code) for one in response.responses] == [
        (TOPICS, "good", ErrorCode.NONE),
        (TOPICS, "null", ErrorCode.INVALID_REQUEST),
        (TOPICS, "twice", ErrorCode.INVALID_REQUEST),
        (TOPICS, "twice", ErrorCode.INVALID_REQUEST),
    ]
    sent = harness.services.only("IncrementalAlterConfigs")
    assert sent.validate_only
    (good,) = sent.resources
    assert (good.resource_name, good.replace) == ("good", True)
    assert [(one.name, one.value) for one in good.configs] == [("retention.ms", "1000")]


async def test_a_failed_request_fails_each_resource(harness: Harness) -> None:
    harness.services.fail("IncrementalAlterConfigs", ErrorCode.INVALID_CONFIG)
    request = AlterConfigsRequest(resources=[resource("a"), resource("b")])
    response = await harness.call(0, request, AlterConfigsResponse)
    assert [(one.resource_name, one.error_code, one.error_message) for one in response.responses] == [
        ("a", ErrorCode.INVALID_CONFIG, "on demand"),
        ("b", ErrorCode.INVALID_CONFIG, "on demand"),
    ]
