"""What handlers ask the authorizer on behalf of a call's client.

`permissions.py` lists what each API asks. Without access control nothing is looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.security.acl import CLUSTER, AclOperation, AclResourceType, Resource
from sharebroker_server.security.authorizer import ALLOW_ALL
from sharebroker_server.security.authorizer import require as require_permission

_OPERATIONS: Final[Mapping[AclResourceType, tuple[AclOperation, ...]]] = MappingProxyType(
    {
        AclResourceType.TOPIC: (
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        ),
        AclResourceType.GROUP: (
            AclOperation.READ,
            AclOperation.DELETE,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        ),
        AclResourceType.CLUSTER: (
            AclOperation.CREATE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
        ),
    }
)
"""The operations that each type of resource supports (Kafka: `AclEntry.supportedOperations`)."""

_NOT_REQUESTED: Final = -(1 << 31)


def is_unrestricted(call: Call[Any]) -> bool:
    """Returns whether there is no access control."""
    return call.gateway.authorizer is ALLOW_ALL


def allows(call: Call[Any], operation: AclOperation, kind: AclResourceType, name: str) -> bool:
    """Returns whether the client may do the operation to the resource; for filters of lists."""
    return is_unrestricted(call) or call.gateway.authorizer.allows(
        call.requester, operation, Resource(kind, name)
    )


def allows_on_cluster(call: Call[Any], operation: AclOperation) -> bool:
    """Returns whether the client may do the operation to the cluster."""
    return allows(call, operation, *CLUSTER)


def require(call: Call[Any], operation: AclOperation, kind: AclResourceType, name: str) -> None:
    """Raises the AUTHORIZATION_FAILED error of the type unless the client may do the operation.

    The audit log records the denial.
    """
    if not is_unrestricted(call):
        require_permission(call.gateway.authorizer, call.requester, operation, Resource(kind, name))


def require_on_cluster(call: Call[Any], operation: AclOperation) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED unless the client may do the operation to the cluster."""
    require(call, operation, *CLUSTER)


def authorized(
    call: Call[Any], operation: AclOperation, kind: AclResourceType, names: Iterable[str]
) -> Set[str]:
    """Returns those of the names that the client may do the operation to.

    The audit log records the others. Kafka: `AuthHelper.filterByAuthorized`.
    """
    permitted = set()
    for name in dict.fromkeys(names):
        with suppress(KafkaError):
            require(call, operation, kind, name)
            permitted.add(name)
    return permitted


def cluster_operations(call: Call[Any], *, requested: bool) -> int:
    """Returns `authorized_operations` on the cluster; none without the permission to DESCRIBE it."""
    if requested and not allows_on_cluster(call, AclOperation.DESCRIBE):
        return 0
    return authorized_operations(call, CLUSTER, requested=requested)


def require_creation(call: Call[Any], name: str) -> None:
    """Raises TOPIC_AUTHORIZATION_FAILED without the permission to CREATE on the cluster or on the topic."""
    if not allows_on_cluster(call, AclOperation.CREATE):
        require(call, AclOperation.CREATE, AclResourceType.TOPIC, name)


def may_describe_topic_configs(call: Call[Any], name: str) -> bool:
    """Returns whether the client may see the configs of the topic."""
    return allows(call, AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, name)


def authorized_operations(call: Call[Any], resource: Resource, *, requested: bool) -> int:
    """Returns the operations that the client may do to a resource, as bits by their number.

    Returns Kafka's "not requested" value unless `requested`.
    """
    if not requested:
        return _NOT_REQUESTED
    return sum(
        1 << operation for operation in _OPERATIONS[resource.type] if allows(call, operation, *resource)
    )
