"""The ACLs of a cluster, and the rules by which they change.

Kafka: `AclControlManager`. Sharebroker also limits the number of ACLs and the length of their texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network
from itertools import islice
from typing import Final, NoReturn

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.security.acl import (
    ANY,
    CLUSTER,
    MATCH,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    binding,
)
from sharebroker_server.security.acl_rules import AclRules

MAX_ACLS: Final = 20_000
"""The largest number of ACLs."""

LONGEST_TEXT: Final = 1024
"""The largest number of characters of a resource name, a principal or a host in an ACL."""

MAX_DELETED_AT_ONCE: Final = 1000
"""The largest number of ACLs that one command deletes; further ones need another command."""


@dataclass(frozen=True, slots=True)
class AclRecord:
    """An ACL."""

    acl: AclBinding


@dataclass(frozen=True, slots=True)
class AclDeletedRecord:
    """The deletion of an ACL."""

    acl: AclBinding


AclChange = AclRecord | AclDeletedRecord


@dataclass(frozen=True, slots=True)
class CreateAcl:
    """Creates an ACL, unless it exists."""

    acl: AclBinding


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    """Deletes the ACLs that a filter selects, MAX_DELETED_AT_ONCE at most."""

    selected: AclFilter


AclCommand = CreateAcl | DeleteAcls

AclReply = tuple[AclBinding, ...]
"""The ACLs that a command creates or deletes."""


def apply_acl(acls: AclRules, record: AclChange) -> None:
    """Applies a record."""
    if isinstance(record, AclRecord):
        acls.add(record.acl)
    else:
        acls.remove(record.acl)


def decide_acl(acls: AclRules, command: AclCommand) -> tuple[AclChange, ...]:
    """Returns the records of a command. Raises POLICY_VIOLATION if there would be too many ACLs."""
    if isinstance(command, DeleteAcls):
        selected = islice(acls.select(command.selected), MAX_DELETED_AT_ONCE)
        return tuple(map(AclDeletedRecord, selected))
    if command.acl in acls:
        return ()
    if len(acls) >= MAX_ACLS:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"The limit of {MAX_ACLS} ACLs is reached.")
    return (AclRecord(command.acl),)


def new_acl(
    resource_type: int,
    resource_name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission_type: int,
) -> AclBinding:
    """Returns the ACL with these fields, in Kafka's numbers. Raises INVALID_REQUEST, with Kafka's texts."""
    _check_number("resourceType", resource_type, AclResourceType)
    _check_number("patternType", pattern_type, PatternType)
    _check_number("operation", operation, AclOperation)
    _check_number("permissionType", permission_type, AclPermissionType)
    if resource_type == CLUSTER.type and resource_name != CLUSTER.name:
        _refuse(f"The only valid name for the CLUSTER resource is {CLUSTER.name}")
    if not resource_name:
        _refuse("Invalid empty resource name")
    if ":" not in principal:
        _refuse(
            f"Could not parse principal from `{principal}` (no colon is present separating the principal "
            "type from the principal name)"
        )
    if max(map(len, (resource_name, principal, host))) > LONGEST_TEXT:
        _refuse(f"A resource name, a principal and a host have at most {LONGEST_TEXT} characters.")
    _check_host(host)
    return binding(resource_type, resource_name, pattern_type, principal, host, operation, permission_type)


def check_filter(wanted: AclFilter) -> AclFilter:
    """Returns the filter. Raises INVALID_REQUEST if it contains an unknown number, with Kafka's texts."""
    patterns = (ANY, MATCH, *PatternType)
    if wanted.resource_type not in (ANY, *AclResourceType) or wanted.pattern_type not in patterns:
        _refuse("Unknown patternFilter.")
    operations, permissions = (ANY, *AclOperation), (ANY, *AclPermissionType)
    if wanted.operation not in operations or wanted.permission_type not in permissions:
        _refuse("Unknown entryFilter.")
    return wanted


_FILTER_NAMES: Final = {ANY: "ANY", MATCH: "MATCH"}


def _check_number(
    name: str,
    number: int,
    kind: type[AclResourceType] | type[PatternType] | type[AclOperation] | type[AclPermissionType],
) -> None:
    if number not in tuple(kind):
        _refuse(f"Invalid {name} {_FILTER_NAMES.get(number, 'UNKNOWN')}")


def _check_host(host: str) -> None:
    if not host:
        _refuse("Invalid empty host")
    if "/" in host:
        try:
            ip_network(host, strict=False)
        except ValueError:
            _refuse(f"Invalid CIDR notation: {host}")


def _refuse(message: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_REQUEST, message)
