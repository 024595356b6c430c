"""What the two APIs that change settings share; they differ in what becomes of what is not named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.admin.topics import alter_configs
from sharebroker_server.gateway.kafka.dispatch.call import Call
from sharebroker_server.gateway.kafka.helpers.configs import Change, altered, config_resource
from sharebroker_server.gateway.kafka.helpers.per_item import check_once, each, error_fields
from sharebroker_server.kafka_wire.message_classes import Message

Changes = Callable[[Iterable[Any]], Iterable[Change]]
"""What a request says of a resource's properties."""

Outcomes = Sequence[pb.IncrementalAlterConfigsResponse.Resource | KafkaError]


async def alter(call: Call, changes: Changes, *, replace: bool = False) -> Outcomes:
    """The outcome for each resource; with `replace` what is not named goes back. Raises KafkaError."""
    asked = call.request.resources
    once = check_once(((one.resource_type, one.resource_name) for one in asked), "resource")

    def translate(one: Any) -> pb.IncrementalAlterConfigsRequest.Resource:
        once((one.resource_type, one.resource_name))
        resource = config_resource(call, one.resource_type, one.resource_name)
        return altered(resource, changes(one.configs), replace=replace)

    async def send(
        resources: list[pb.IncrementalAlterConfigsRequest.Resource],
    ) -> Iterable[pb.IncrementalAlterConfigsResponse.Resource]:
        request = pb.IncrementalAlterConfigsRequest(
            resources=resources, validate_only=call.request.validate_only
        )
        return (await alter_configs(call.gateway, request, call.deadline())).responses

    return await each(asked, translate, send)


def results(shape: type[Message], call: Call, outcomes: Outcomes) -> list[Message]:
    """The outcomes as parts of an answer."""
    return [
        shape(resource_type=one.resource_type, resource_name=one.resource_name, **error_fields(outcome))
        for one, outcome in zip(call.request.resources, outcomes, strict=True)
    ]
