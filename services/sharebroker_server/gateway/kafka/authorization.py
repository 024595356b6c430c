"""The authorized operations in responses: what a client may do to a resource."""

from __future__ import annotations

from typing import Any, Final

from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.security.acl import CLUSTER, AclOperation, Resource

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
    return call.rights.operations(resource)
