"""The authorized operations in responses: what a client may do to a resource."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.security.acl import CLUSTER, AclOperation, AclResourceType, Resource

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


def cluster_operations(call: Call[Any], *, requested: bool) -> int:
    """Returns `authorized_operations` on the cluster; none without the permission to DESCRIBE it."""
    if requested and not call.rights.allows_on_cluster(AclOperation.DESCRIBE):
        return 0
    return authorized_operations(call, CLUSTER, requested=requested)


def authorized_operations(call: Call[Any], resource: Resource, *, requested: bool) -> int:
    """Returns the operations that the client may do to a resource, as bits by their number.

    Returns Kafka's "not requested" value unless `requested`.
    """
    if not requested:
        return _NOT_REQUESTED
    rights = call.rights
    return sum(
        1 << operation for operation in _OPERATIONS[resource.type] if rights.allows(operation, *resource)
    )
