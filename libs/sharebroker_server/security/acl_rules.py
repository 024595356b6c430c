"""Decides by the ACLs of a cluster what a principal may do, exactly as Kafka's `StandardAuthorizer`.

Theory of operation
-------------------

An ACL is about a resource if its pattern matches the name: the literal name itself, the literal `*`, or a
prefix. Of the ACLs about a resource, those apply that match the principal (or are for `User:*`), the host and
the operation. One DENY that applies decides; otherwise an ALLOW that applies allows. If ACLs are about the
resource and none applies, the operation is denied. If no ACL is about it, the caller of `decide` decides.

An ALLOW of READ, WRITE, DELETE or ALTER implies DESCRIBE, and one of ALTER_CONFIGS implies DESCRIBE_CONFIGS.
A DENY implies nothing.

The index has the patterns of each resource type: literal names, and prefixes by their length. A decision
looks up the name, `*` and one prefix per length, then the entries of two principals. Its cost does not grow
with the number of patterns or principals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from types import MappingProxyType
from typing import Final, NamedTuple

from sharebroker_server.security.acl import (
    EVERYONE,
    WILDCARD,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    Resource,
)

_IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = MappingProxyType(
    {
        AclOperation.DESCRIBE: frozenset(
            {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
        ),
        AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
    }
)
"""The operations whose ALLOW also allows an operation (Kafka: `StandardAuthorizerData`)."""

_NOTHING: Final[frozenset[AclOperation]] = frozenset()


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


class HostAddress:
    """The host of a caller, parsed once per decision. An IPv4 address in IPv6 form is an IPv4 address."""

    __slots__ = ("number", "text", "version")

    def __init__(self, text: str) -> None:
        address = _address(text)
        self.version, self.number = (0, 0) if address is None else (address.version, int(address))
        self.text = text if address is None else str(address)


class HostPattern:
    """The host of an ACL: `*`, an address, or a range of addresses (CIDR, Kafka 4.4)."""

    __slots__ = ("_first", "_last", "_text", "_version")

    def __init__(self, text: str) -> None:
        self._version, self._text = 0, HostAddress(text).text
        if "/" in text:
            with suppress(ValueError):  # an invalid range is about no address, as in Kafka
                network = ip_network(text, strict=False)
                self._version = network.version
                self._first, self._last = int(network.network_address), int(network.broadcast_address)

    def matches(self, host: HostAddress) -> bool:
        """Returns whether the pattern is about the host."""
        if self._version:
            return host.version == self._version and self._first <= host.number <= self._last
        return self._text in (WILDCARD, host.text)


_EVERY_HOST: Final = HostPattern(WILDCARD)


class _Entry(NamedTuple):
    """An ACL without its pattern and principal."""

    operation: AclOperation
    allows: bool
    host: HostPattern

    def applies(self, operation: AclOperation, host: HostAddress) -> bool:
        """Returns whether the entry decides about an operation from a host."""
        if self.operation is not operation and self.operation is not AclOperation.ALL:
            implied = self.allows and self.operation in _IMPLIED_BY.get(operation, _NOTHING)
            return implied and self.host.matches(host)
        return self.host.matches(host)


_Entries = dict[AclBinding, _Entry]
_Principals = dict[str, _Entries]


class _Patterns:
    """The patterns of one resource type, and their entries by principal."""

    __slots__ = ("_counts", "_lengths", "literals", "prefixes")

    def __init__(self) -> None:
        self.literals: dict[str, _Principals] = {}
        self.prefixes: dict[str, _Principals] = {}
        self._counts: Counter[int] = Counter()
        self._lengths: tuple[int, ...] = ()

    def of_type(self, pattern_type: PatternType) -> dict[str, _Principals]:
        """Returns the patterns of a type."""
        return self.literals if pattern_type is PatternType.LITERAL else self.prefixes

    def add(self, acl: AclBinding) -> None:
        """Adds an ACL."""
        patterns = self.of_type(acl.pattern_type)
        if acl.resource_name not in patterns:
            patterns[acl.resource_name] = {}
            self._count(acl, 1)
        allows = acl.permission_type is AclPermissionType.ALLOW
        host = _EVERY_HOST if acl.host == WILDCARD else HostPattern(acl.host)
        entry = _Entry(acl.operation, allows, host)
        patterns[acl.resource_name].setdefault(acl.principal, {})[acl] = entry

    def remove(self, acl: AclBinding) -> None:
        """Removes an ACL, which must exist."""
        patterns = self.of_type(acl.pattern_type)
        principals = patterns[acl.resource_name]
        del principals[acl.principal][acl]
        if not principals[acl.principal]:
            del principals[acl.principal]
        if not principals:
            del patterns[acl.resource_name]
            self._count(acl, -1)

    def about(self, name: str) -> Iterator[_Principals]:
        """Yields the entries of each pattern that matches a name."""
        for literal in (name, WILDCARD) if name != WILDCARD else (name,):
            if literal in self.literals:
                yield self.literals[literal]
        for length in self._lengths:
            if length > len(name):
                return
            found = self.prefixes.get(name[:length])
            if found is not None:
                yield found

    def _count(self, acl: AclBinding, change: int) -> None:
        if acl.pattern_type is PatternType.PREFIXED:
            length = len(acl.resource_name)
            self._counts[length] += change
            if self._counts[length] == max(change, 0):  # the first prefix of this length, or the last one
                self._lengths = tuple(sorted(+self._counts))


class AclRules:
    """The ACLs of a cluster. `add` and `remove` may repeat."""

    __slots__ = ("_acls", "_types")

    def __init__(self, acls: Iterable[AclBinding] = ()) -> None:
        self._acls: dict[AclBinding, None] = {}
        self._types = {kind: _Patterns() for kind in AclResourceType}
        for acl in acls:
            self.add(acl)

    def __len__(self) -> int:
        """Returns the number of ACLs."""
        return len(self._acls)

    def __contains__(self, acl: AclBinding) -> bool:
        return acl in self._acls

    def add(self, acl: AclBinding) -> None:
        """Adds an ACL."""
        if acl not in self._acls:
            self._acls[acl] = None
            self._types[acl.resource_type].add(acl)

    def remove(self, acl: AclBinding) -> None:
        """Removes an ACL."""
        if acl in self._acls:
            del self._acls[acl]
            self._types[acl.resource_type].remove(acl)

    def select(self, wanted: AclFilter) -> Iterator[AclBinding]:
        """Yields the ACLs that a filter selects, oldest first. Raises ValueError for an unknown number."""
        one = wanted.only()
        if one is None:
            yield from filter(wanted.matches, self._acls)
        elif one in self._acls:
            yield one

    def decide(self, principal: str, host: str, operation: AclOperation, resource: Resource) -> bool | None:
        """Returns whether the ACLs allow an operation; None if no ACL is about the resource."""
        address = HostAddress(host)
        found = allowed = False
        for principals in self._types[resource.type].about(resource.name):
            found = True
            for entry in _entries(principals, principal):
                if entry.applies(operation, address):
                    if not entry.allows:
                        return False
                    allowed = True
        return allowed if found else None

    def decide_any(self, principal: str, host: str, operation: AclOperation, kind: AclResourceType) -> bool:
        """Returns whether the ACLs allow an operation on some resource of a type.

        Kafka: the default `Authorizer.authorizeByResourceType`. No operation implies another one here. A DENY
        of the name or of a prefix of it cancels an ALLOW; only a DENY of `*` cancels an ALLOW of `*`.
        """
        address = HostAddress(host)
        patterns = self._types[kind]
        literals = _decided(patterns.literals, principal, operation, address)
        if False in literals.get(WILDCARD, ()):
            return False
        if WILDCARD in literals:
            return True
        prefixes = _decided(patterns.prefixes, principal, operation, address)
        denied = {name for name, decisions in prefixes.items() if False in decisions}
        allowed = [name for name, decisions in literals.items() if False not in decisions]
        allowed += [name for name, decisions in prefixes.items() if False not in decisions]
        return any(denied.isdisjoint(_prefixes(name)) for name in allowed)


def _entries(principals: _Principals, principal: str) -> Iterator[_Entry]:
    for name in (principal, EVERYONE):
        entries = principals.get(name)
        if entries is not None:
            yield from entries.values()


def _decided(
    patterns: Mapping[str, _Principals], principal: str, operation: AclOperation, host: HostAddress
) -> dict[str, set[bool]]:
    """Returns the decisions of the entries about an operation by the name of their pattern."""
    found: dict[str, set[bool]] = {}
    for name, principals in patterns.items():
        for entry in _entries(principals, principal):
            if entry.operation in (operation, AclOperation.ALL) and entry.host.matches(host):
                found.setdefault(name, set()).add(entry.allows)
    return found


def _prefixes(name: str) -> Iterator[str]:
    return (name[:length] for length in range(1, len(name) + 1))
