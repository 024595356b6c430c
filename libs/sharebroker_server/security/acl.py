"""The terms of access control: what a caller does (an operation) to what (a resource), and the ACLs about it.

The numbers are Kafka's (`AclOperation`, `ResourceType`, `PatternType`, `AclPermissionType`); its protocol and
the catalog store them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from sharebroker_server.security.principal import Principal


class AclResourceType(IntEnum):
    """The types of resources that ACLs name.

    Sharebroker has no delegation tokens; it stores ACLs of the last two types, which then have no effect.
    """

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(IntEnum):
    """The operations of ACLs. A caller needs a permission for one of READ to IDEMPOTENT_WRITE."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PatternType(IntEnum):
    """Which resources the name in an ACL stands for."""

    LITERAL = 3
    """The resource of this name; all resources of the type if the name is WILDCARD."""

    PREFIXED = 4
    """The resources whose names begin with this name."""


class AclPermissionType(IntEnum):
    """What an ACL decides."""

    DENY = 2
    ALLOW = 3


WILDCARD: Final = "*"
"""The name of all resources, and the host of all hosts."""

EVERYONE: Final = "User:*"
"""The principal of ACLs for every principal."""


class Resource(NamedTuple):
    """A resource by type and name."""

    type: AclResourceType
    name: str


CLUSTER: Final = Resource(AclResourceType.CLUSTER, "kafka-cluster")
"""The cluster as a resource (Kafka: `Resource.CLUSTER`)."""


class Requester(NamedTuple):
    """The caller of a request: its principal, and the address of its host without a port.

    Kafka: `AuthorizableRequestContext`.
    """

    principal: Principal
    host: str


class AclBinding(NamedTuple):
    """An ACL: whether a principal may do an operation from a host to the resources of a pattern."""

    resource_type: AclResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType


ANY: Final = 1
"""In filters: every type, operation or permission."""

MATCH: Final = 2
"""The pattern type of filters for all patterns that match the resource of the name."""


class AclFilter(NamedTuple):
    """Selects ACLs. None stands for every text, ANY for every number (Kafka: `AclBindingFilter`)."""

    resource_type: int = ANY
    resource_name: str | None = None
    pattern_type: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission_type: int = ANY

    def matches(self, acl: AclBinding) -> bool:
        """Returns whether the filter selects the ACL."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        name = self.resource_name
        if self.pattern_type not in (ANY, MATCH, acl.pattern_type):
            return False
        if name is None or self.pattern_type != MATCH:
            return name in (None, acl.resource_name)
        if acl.pattern_type is PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)

    def only(self) -> AclBinding | None:
        """Returns the one ACL that the filter can select; None if it can select several."""
        if ANY in self or None in self or self.pattern_type == MATCH:
            return None
        return binding(*self)


def binding(
    resource_type: int,
    resource_name: str | None,
    pattern_type: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission_type: int,
) -> AclBinding:
    """Returns the ACL with these fields. Raises ValueError for an unknown number."""
    return AclBinding(
        AclResourceType(resource_type),
        resource_name or "",
        PatternType(pattern_type),
        principal or "",
        host or "",
        AclOperation(operation),
        AclPermissionType(permission_type),
    )
