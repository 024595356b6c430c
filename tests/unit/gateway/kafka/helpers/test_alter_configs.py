"""Changes of several config resources."""

from __future__ import annotations

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.gateway.kafka.dispatch.call import Call
from sharebroker_server.gateway.kafka.helpers.alter_configs import alter_resources
from sharebroker_server.gateway.kafka.helpers.configs import replacements
from sharebroker_server.kafka_wire.messages import AlterConfigsRequest, AlterConfigsResponse
from tests.unit.gateway.kafka.api.harness import Harness


async def test_valid_resources_are_altered_together(harness: Harness, call: Call) -> None:
    harness.services.reply(
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
    sent = harness.services.only("IncrementalAlterConfigs")
    assert [(one.resource_name, one.replace) for one in sent.resources] == [("a", True), ("g", True)]
    assert sent.validate_only
