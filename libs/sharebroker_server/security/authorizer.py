"""The port through which both listeners decide what a caller may do, and the errors of denied requests."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.acl import AclOperation, AclResourceType, Requester, Resource


class Authorizer(Protocol):
    """Decides what callers may do (Kafka: `Authorizer`)."""

    def allows(self, requester: Requester, operation: AclOperation, resource: Resource) -> bool:
        """Returns whether the requester may do `operation` to `resource`."""

    def allows_any(self, requester: Requester, operation: AclOperation, kind: AclResourceType) -> bool:
        """Returns whether the requester may do `operation` to some resource of the type.

        Kafka: `authorizeByResourceType`.
        """


class AllowAll:
    """The authorizer of a cluster without access control: every caller may do everything."""

    def allows(self, requester: Requester, operation: AclOperation, resource: Resource) -> bool:
        """Returns True."""
        return True

    def allows_any(self, requester: Requester, operation: AclOperation, kind: AclResourceType) -> bool:
        """Returns True."""
        return True


ALLOW_ALL: Final = AllowAll()

_CODES: Final[Mapping[AclResourceType, ErrorCode]] = MappingProxyType(
    {
        AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
        AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def denied(kind: AclResourceType, metadata: Mapping[str, str] | None = None) -> KafkaError:
    """Returns the error of a request whose caller lacks a permission on a resource of the type."""
    return KafkaError(_CODES[kind], metadata=metadata)


def require(
    authorizer: Authorizer, requester: Requester, operation: AclOperation, resource: Resource
) -> None:
    """Raises the resource type's AUTHORIZATION_FAILED error unless the requester may do the operation."""
    if not authorizer.allows(requester, operation, resource):
        raise denied(resource.type)
