"""The terms of access control: what a caller does (an operation) to what (a resource).

The numbers are Kafka's (`AclOperation`, `ResourceType`); its protocol and the catalog store them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from sharebroker_server.security.principal import Principal


class AclResourceType(IntEnum):
    """The types of resources that Sharebroker protects."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class AclOperation(IntEnum):
    """The operations that a caller needs a permission for."""

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
