"""ACLs: who may do what. Their numbers in messages are Kafka's; here they have names in lower case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as gateway

_ENUMS: Final[Mapping[str, tuple[Any, str]]] = {
    "resource_type": (cluster.AclResourceType, "ACL_RESOURCE_TYPE_"),
    "pattern_type": (cluster.PatternType, "PATTERN_TYPE_"),
    "operation": (cluster.AclOperation, "ACL_OPERATION_"),
    "permission_type": (cluster.AclPermissionType, "ACL_PERMISSION_TYPE_"),
}

OPERATIONS: Final = tuple(
    name.removeprefix("ACL_OPERATION_").lower().replace("_", "-") for name in cluster.AclOperation.keys()[2:]
)
"""The operations of ACLs."""

CLUSTER: Final = "kafka-cluster"
"""The name of the cluster as a resource."""


@dataclass(frozen=True, slots=True)
class Acl:
    """An ACL: whether a principal may do an operation to resources.

    For example `Acl("User:alice", "read", "topic", "orders")`.
    """

    principal: str
    """`User:name`, or `User:*` for everyone."""
    operation: str
    """`all`, `read`, `write`, `create`, `delete`, `alter`, `describe`, `alter-configs` …"""
    resource_type: str
    """`topic`, `group`, `transactional-id` or `cluster`."""
    resource_name: str
    """The name of the resource; `*` for all of the type, `kafka-cluster` for the cluster."""
    pattern_type: str = "literal"
    """`literal`, or `prefixed`: all resources whose names begin with `resource_name`."""
    host: str = "*"
    """The address from which the principal calls: `*`, an address, or a range such as `10.0.0.0/8`."""
    permission_type: str = "allow"
    """`allow` or `deny`."""


@dataclass(frozen=True, slots=True)
class AclSelection:
    """Selects ACLs by the fields that are not None.

    `pattern_type` `match` selects all patterns that match the resource of the name.
    """

    principal: str | None = None
    """The principal of the ACL."""
    operation: str | None = None
    """The operation of the ACL; `all` selects ACLs of all operations, not every ACL."""
    resource_type: str | None = None
    """The resource type of the ACL."""
    resource_name: str | None = None
    """The name in the ACL."""
    pattern_type: str | None = None
    """`literal`, `prefixed` or `match`."""
    host: str | None = None
    """The host in the ACL."""
    permission_type: str | None = None
    """`allow` or `deny`."""


def creation_of(acl: Acl) -> cluster.CreateAclsRequest.Creation:
    """Returns an ACL as a message. Raises KafkaError INVALID_REQUEST for an unknown name."""
    fields = {name: _number(name, value) for name, value in asdict(acl).items()}
    fields["resource_pattern_type"] = fields.pop("pattern_type")
    return cluster.CreateAclsRequest.Creation(**fields)


def filter_fields(wanted: AclSelection) -> dict[str, Any]:
    """Returns the fields of a filter in messages. Raises KafkaError INVALID_REQUEST for an unknown name."""
    fields = asdict(wanted)
    renamed = ("resource_type", "resource_name", "pattern_type", "principal", "host")
    return {
        f"{name}_filter" if name in renamed else name: _number(name, "any" if value is None else value)
        if name in _ENUMS
        else value
        for name, value in fields.items()
    }


def listed_acls(response: gateway.DescribeAclsResponse) -> list[Acl]:
    """Returns the ACLs of a response."""
    return [
        _acl(resource=resource, entry=entry) for resource in response.resources for entry in resource.acls
    ]


def deleted_acls(result: cluster.DeleteAclsResponse.FilterResult) -> list[Acl]:
    """Returns the deleted ACLs of a result."""
    return [_acl(resource=acl, entry=acl) for acl in result.matching_acls]


def _acl(resource: Any, entry: Any) -> Acl:
    return Acl(
        entry.principal,
        _name("operation", entry.operation),
        _name("resource_type", resource.resource_type),
        resource.resource_name,
        _name("pattern_type", resource.pattern_type),
        entry.host,
        _name("permission_type", entry.permission_type),
    )


def _number(field: str, value: str) -> Any:
    if field not in _ENUMS:
        return value
    enum, prefix = _ENUMS[field]
    name = prefix + value.upper().replace("-", "_")
    if name not in tuple(enum.keys()):
        known = ", ".join(_name(field, number) for number in enum.values()[1:])
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{field} must be one of {known}; not {value!r}.")
    return enum.Value(name)


def _name(field: str, number: int) -> str:
    enum, prefix = _ENUMS[field]
    known = number in enum.values()
    name: str = enum.Name(number).removeprefix(prefix) if known else str(number)
    return name.lower().replace("_", "-")
