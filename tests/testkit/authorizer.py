"""An authorizer whose decisions a test sets: everything is allowed except what the test denies."""

from __future__ import annotations

from itertools import count
from typing import Final

from sharebroker_server.security.acl import AclOperation, AclResourceType, Requester, Resource

_versions: Final = count()
"""Versions of all tables: a gateway whose table is replaced does not keep the permissions of the first."""

Checked = tuple[AclOperation, AclResourceType, str]


class TableAuthorizer:
    """Denies the operations in its table, by resource type and by name; "*" denies every name.

    `requesters` are the callers that asked, and `checked` the decisions they asked for, in order.
    """

    def __init__(self) -> None:
        self.requesters: list[Requester] = []
        self.checked: list[Checked] = []
        self.version = next(_versions)
        self._denied: set[Checked] = set()

    def deny(self, operation: AclOperation, kind: AclResourceType, *names: str) -> None:
        """Denies the operation on the named resources; without names on all of the type."""
        self._denied |= {(operation, kind, name) for name in names or ("*",)}
        self.version = next(_versions)

    def deny_all(self, *, except_for: tuple[AclOperation, AclResourceType] | None = None) -> None:
        """Denies every operation on every resource, except for one operation on one type."""
        for kind in AclResourceType:
            for operation in AclOperation:
                if (operation, kind) != except_for:
                    self.deny(operation, kind)

    def allow_all(self) -> None:
        """Empties the table."""
        self._denied.clear()
        self.version = next(_versions)

    def allows(self, requester: Requester, operation: AclOperation, resource: Resource) -> bool:
        """Returns whether the table does not deny the operation on the resource."""
        self.requesters.append(requester)
        self.checked.append((operation, resource.type, resource.name))
        denied = {(operation, resource.type, resource.name), (operation, resource.type, "*")}
        return denied.isdisjoint(self._denied)

    def allows_any(self, requester: Requester, operation: AclOperation, kind: AclResourceType) -> bool:
        """Returns whether the table does not deny the operation on every resource of the type."""
        self.requesters.append(requester)
        self.checked.append((operation, kind, "*"))
        return (operation, kind, "*") not in self._denied
