"""Configs as Kafka's clients name and change them: resources by number, changes by operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, Protocol, TypeVar, cast

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.names import check_topic_name
from sharebroker_server.catalog.records import ConfigResource, ResourceType
from sharebroker_server.gateway.admin.topics import alter_configs
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.catalog_changes import duplicate_check, each_item, error_fields
from sharebroker_server.kafka_wire.messages import AlterConfigsRequest, IncrementalAlterConfigsRequest

Change = pb.IncrementalAlterConfigsRequest.Config


class Operation(IntEnum):
    """An operation on a property (Kafka: `AlterConfigOp.OpType`)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_SET: Final = pb.CONFIG_OPERATION_UNSPECIFIED
_EDITS: Final = {
    Operation.APPEND: pb.CONFIG_OPERATION_APPEND,
    Operation.SUBTRACT: pb.CONFIG_OPERATION_SUBTRACT,
}


class _Config(Protocol):
    name: str
    value: str | None


N = TypeVar("N", bound=_Config)


def config_resource(call: Call, kind: int, name: str) -> ConfigResource:
    """Returns the resource of a request. Raises INVALID_REQUEST, INVALID_TOPIC_EXCEPTION."""
    try:
        resource = ConfigResource(ResourceType(kind), name)
    except ValueError:
        raise _invalid(f"Resources of type {kind} have no configs here.") from None
    if resource.type is ResourceType.TOPIC:
        check_topic_name(name)
    elif resource.type is ResourceType.GROUP and not name:
        raise _invalid("The group id must not be empty.")
    elif resource.type is ResourceType.BROKER and name not in ("", str(call.view.local_id)):
        raise _invalid(
            f"Unexpected broker id, expected {call.view.local_id} or empty string, but received {name}."
        )
    return resource


def alteration(
    resource: ConfigResource, changes: Iterable[Change], *, replace: bool
) -> pb.IncrementalAlterConfigsRequest.Resource:
    """Returns the request to the owner of the catalog."""
    return pb.IncrementalAlterConfigsRequest.Resource(
        resource_type=cast("pb.ResourceType.ValueType", int(resource.type)),
        resource_name=resource.name,
        configs=changes,
        replace=replace,
    )


def replacements(configs: Iterable[AlterConfigsRequest.AlterableConfig]) -> Iterator[Change]:
    """Yields the changes of AlterConfigs: every property has a value. Raises INVALID_REQUEST."""
    for name, config in _by_name(configs).items():
        yield Change(name=name, value=_value(config))


def changes(configs: Iterable[IncrementalAlterConfigsRequest.AlterableConfig]) -> Iterator[Change]:
    """Yields the changes of IncrementalAlterConfigs. Raises INVALID_REQUEST."""
    for name, config in _by_name(configs).items():
        try:
            operation = Operation(config.config_operation)
        except ValueError:
            raise _invalid(f"Unknown operation {config.config_operation} on {name}.") from None
        if operation is Operation.DELETE:
            yield Change(name=name)
        else:
            yield Change(name=name, value=_value(config), config_operation=_EDITS.get(operation, _SET))


def _by_name(configs: Iterable[N]) -> dict[str, N]:
    configs = list(configs)
    check = duplicate_check((config.name for config in configs), "config key")
    for config in configs:
        check(config.name)
    return {config.name: config for config in configs}


def _value(config: _Config) -> str:
    if config.value is None:
        raise _invalid(f"Null value not supported for: {config.name}")
    return config.value


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


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
