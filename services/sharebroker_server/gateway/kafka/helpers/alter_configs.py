"""Changes of configs, as AlterConfigs and IncrementalAlterConfigs request them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_server.gateway.admin.topics import alter_configs
from sharebroker_server.gateway.kafka.dispatch.call import Call
from sharebroker_server.gateway.kafka.helpers.configs import Change, alteration, config_resource
from sharebroker_server.gateway.kafka.helpers.per_item import duplicate_check, each_item, error_fields

C_co = TypeVar("C_co", covariant=True)
C = TypeVar("C")
R = TypeVar("R")


class _Resource(Protocol[C_co]):
    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[C_co]: ...


async def alter_resources(
    call: Call,
    resources: Sequence[_Resource[C]],
    changes: Callable[[Iterable[C]], Iterable[Change]],
    make: Callable[..., R],
    *,
    validate_only: bool,
    replace: bool = False,
) -> list[R]:
    """Returns the result of each resource; `replace` resets properties that the request does not name.

    `changes` converts the configs of a resource; `make` creates a result. Raises KafkaError.
    """
    check = duplicate_check(((item.resource_type, item.resource_name) for item in resources), "resource")

    def translate(item: _Resource[C]) -> pb.IncrementalAlterConfigsRequest.Resource:
        check((item.resource_type, item.resource_name))
        resource = config_resource(call, item.resource_type, item.resource_name)
        return alteration(resource, changes(item.configs), replace=replace)

    async def send(
        altered: list[pb.IncrementalAlterConfigsRequest.Resource],
    ) -> Iterable[pb.IncrementalAlterConfigsResponse.Resource]:
        request = pb.IncrementalAlterConfigsRequest(resources=altered, validate_only=validate_only)
        return (await alter_configs(call.gateway, request, call.deadline())).responses

    results = await each_item(resources, translate, send)
    return [
        make(resource_type=item.resource_type, resource_name=item.resource_name, **error_fields(result))
        for item, result in zip(resources, results, strict=True)
    ]
