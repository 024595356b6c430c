"""Configs as Kafka's clients name and change them: resources by number, changes by operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, cast

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, check_topic_name
from sharebroker_server.gateway.admin.configs import alter_configs
from sharebroker_server.gateway.kafka.call import Call, Refusal
from sharebroker_server.gateway.kafka.catalog_changes import duplicate_check, each_item
from sharebroker_server.kafka_wire.messages import AlterConfigsRequest, IncrementalAlterConfigsRequest
from sharebroker_server.security.acl import AclOperation, AclResourceType

Change = pb.IncrementalAlterConfigsRequest.Config
_Alteration = pb.IncrementalAlterConfigsRequest.Resource
_Configs = Sequence[AlterConfigsRequest.AlterableConfig | IncrementalAlterConfigsRequest.AlterableConfig]

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
"""The operations on a property (Kafka: `AlterConfigOp.OpType`)."""

_OPERATIONS: Final = {
    _SET: pb.CONFIG_OPERATION_UNSPECIFIED,
    _APPEND: pb.CONFIG_OPERATION_APPEND,
    _SUBTRACT: pb.CONFIG_OPERATION_SUBTRACT,
}


_PROTECTED: Final = {
    ResourceType.TOPIC: AclResourceType.TOPIC,
    ResourceType.GROUP: AclResourceType.GROUP,
}


def config_resource(call: Call, operation: AclOperation, kind: int, name: str) -> ConfigResource:
    """Returns the resource of a request, whose configs the client must be allowed to do the operation to.

    Raises INVALID_REQUEST, INVALID_TOPIC_EXCEPTION and the AUTHORIZATION_FAILED error of the resource.
    """
    try:
        resource = ConfigResource(ResourceType(kind), name)
    except ValueError:
        raise _invalid(f"Resources of type {kind} have no configs here.") from None
    if resource.type is ResourceType.BROKER:
        call.rights.require_on_cluster(operation)
    else:
        call.rights.require(operation, _PROTECTED[resource.type], name)
    if resource.type is ResourceType.TOPIC:
        check_topic_name(name)
    elif resource.type is ResourceType.GROUP and not name:
        raise _invalid("Default group resources are not allowed.")
    elif resource.type is ResourceType.BROKER and name not in ("", str(call.view.local_id)):
        raise _invalid(
            f"Unexpected broker id, expected {call.view.local_id} or empty string, but received {name}."
        )
    return resource


def changes(configs: _Configs) -> Iterator[Change]:
    """Yields the changes of a resource; those of AlterConfigs set values. Raises INVALID_REQUEST."""
    if len({config.name for config in configs}) < len(configs):
        raise _invalid("Error due to duplicate config keys")
    for config in configs:
        operation = getattr(config, "config_operation", _SET)
        if operation == _DELETE:
            yield Change(name=config.name)
        elif operation not in _OPERATIONS:
            raise _invalid(f"Unknown operation {operation} on {config.name}.")
        elif config.value is None:
            raise _invalid(f"Null value not supported for : {config.name}")
        else:
            yield Change(name=config.name, value=config.value, config_operation=_OPERATIONS[operation])


async def alter_resources(
    call: Call[AlterConfigsRequest] | Call[IncrementalAlterConfigsRequest],
    refuse: Refusal[Any],
    *,
    replace: bool = False,
) -> list[Any]:
    """Returns the result of each resource, as an item of the response that `refuse` makes.

    `replace` resets the properties that the request does not name.
    """
    resources: Sequence[Any] = call.request.resources
    check = duplicate_check(((item.resource_type, item.resource_name) for item in resources), "resource")

    def translate(item: Any) -> _Alteration:
        check((item.resource_type, item.resource_name))
        resource = config_resource(call, AclOperation.ALTER_CONFIGS, item.resource_type, item.resource_name)
        return _Alteration(
            resource_type=cast("pb.ResourceType.ValueType", int(resource.type)),
            resource_name=resource.name,
            configs=changes(item.configs),
            replace=replace,
        )

    async def send(altered: list[_Alteration]) -> Iterable[pb.IncrementalAlterConfigsResponse.Resource]:
        request = pb.IncrementalAlterConfigsRequest(
            resources=altered, validate_only=call.request.validate_only
        )
        return (await alter_configs(call.gateway, request, call.deadline())).responses

    result = partial(refuse.item, "responses")
    turns = call.gateway.turns
    return await each_item(turns, resources, translate, send, lambda item, _: result(item), result)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
