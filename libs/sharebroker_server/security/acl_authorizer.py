"""The authorizer of a cluster with access control (Kafka: `StandardAuthorizer`): super users, then ACLs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from sharebroker_server.security.acl import CLUSTER, AclOperation, AclResourceType, Requester, Resource
from sharebroker_server.security.acl_rules import AclRules
from sharebroker_server.security.principal import USER, Principal

MAX_DECISIONS: Final = 20_000
"""The largest number of cached decisions; a further one drops them all."""

LONGEST_NAME: Final = 256
"""The longest name of a resource, in characters, whose decisions are cached."""

_CLUSTER_ACTION: Final = (AclOperation.CLUSTER_ACTION, CLUSTER)

_SOME_RESOURCE: Final = "hardcode"
"""A name with which Kafka finds out whether a principal may do everything."""

_ANY_OF_TYPE: Final = 16
"""What is added to an operation's number in the cache of decisions about all resources of a type."""

_Key = tuple[str, str, str, str]


class AclSource(Protocol):
    """The ACLs and the super users of the catalog."""

    @property
    def acls(self) -> AclRules:
        """The ACLs."""

    def is_super_user(self, name: str) -> bool:
        """Returns whether the catalog makes a user a super user."""


class AclAuthorizer:
    """Decides by the ACLs of `source`, and caches decisions until `invalidate`.

    `super_users` are principals as text; they may do everything. `brokers` are the names of the principals
    of processes of the cluster; they may do CLUSTER_ACTION. `default` is the decision about resources without
    any ACL (`allow.everyone.if.no.acl.found`).
    """

    def __init__(
        self,
        source: AclSource,
        *,
        super_users: Iterable[str] = (),
        brokers: Iterable[str] = (),
        default: bool = False,
    ) -> None:
        self._source = source
        self._super_users = frozenset(super_users)
        self._brokers = frozenset(brokers)
        self._default = default
        self._decisions: list[list[dict[_Key, bool]]] = []
        self._count = 0
        self.version = 0
        """The number of changes of ACLs or users so far."""
        self._drop_decisions()

    def invalidate(self) -> None:
        """Drops the cached decisions, also those of callers: ACLs or users have changed."""
        self.version += 1
        self._drop_decisions()

    def _drop_decisions(self) -> None:
        # Lists by number, because an enum as a key of a dict costs a call of its __hash__.
        rows = _ANY_OF_TYPE + max(AclOperation) + 1
        self._decisions = [[{} for _ in range(max(AclResourceType) + 1)] for _ in range(rows)]
        self._count = 0

    def allows(self, requester: Requester, operation: AclOperation, resource: Resource) -> bool:
        """Returns whether the requester may do `operation` to `resource`."""
        principal = requester.principal
        key = (principal.name, principal.type, requester.host, resource.name)
        decision = self._decisions[operation][resource.type].get(key)
        if decision is None:
            decision = self._decide(principal, requester.host, operation, resource)
            self._store(operation, resource.type, key, decision)
        return decision

    def allows_any(self, requester: Requester, operation: AclOperation, kind: AclResourceType) -> bool:
        """Returns whether the requester may do `operation` to some resource of the type."""
        principal, host = requester
        key = (principal.name, principal.type, host, "")
        row = _ANY_OF_TYPE + operation
        decision = self._decisions[row][kind].get(key)
        if decision is None:
            decision = self._decide(principal, host, operation, Resource(kind, _SOME_RESOURCE))
            decision = decision or self._source.acls.decide_any(str(principal), host, operation, kind)
            self._store(row, kind, key, decision)
        return decision

    def _store(self, row: int, kind: AclResourceType, key: _Key, decision: bool) -> None:
        if max(map(len, key)) > LONGEST_NAME:
            return
        if self._count >= MAX_DECISIONS:
            self._drop_decisions()
        self._decisions[row][kind][key] = decision
        self._count += 1

    def _decide(self, principal: Principal, host: str, operation: AclOperation, resource: Resource) -> bool:
        text = str(principal)
        if text in self._super_users:
            return True
        if principal.type == USER and self._source.is_super_user(principal.name):
            return True
        if principal.name in self._brokers and (operation, resource) == _CLUSTER_ACTION:
            return True
        decided = self._source.acls.decide(text, host, operation, resource)
        return self._default if decided is None else decided
