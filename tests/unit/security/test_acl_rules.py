"""Decisions by ACLs: DENY wins, ALLOW implies DESCRIBE, patterns, hosts, and `authorizeByResourceType`."""

from __future__ import annotations

from sharebroker_server.security.acl import (
    CLUSTER,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    Resource,
)
from sharebroker_server.security.acl_rules import AclRules
from tests.testkit.tables import each

TOPIC = AclResourceType.TOPIC
ORDERS = Resource(TOPIC, "orders")
ALICE, HOST = "User:alice", "10.0.0.7"
READ, WRITE, DESCRIBE, ALL = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.ALL,
)


def allow(
    name: str = "orders",
    operation: AclOperation = READ,
    *,
    principal: str = ALICE,
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(TOPIC, name, pattern, principal, host, operation, permission)


def deny(name: str = "orders", operation: AclOperation = READ, **more: str) -> AclBinding:
    return allow(name, operation, permission=AclPermissionType.DENY, **more)  # type: ignore[arg-type]  # no pattern


def prefix(name: str, operation: AclOperation = READ) -> AclBinding:
    return allow(name, operation, pattern=PatternType.PREFIXED)


def deny_prefix(name: str, operation: AclOperation = READ) -> AclBinding:
    return allow(name, operation, pattern=PatternType.PREFIXED, permission=AclPermissionType.DENY)


@each(
    "acls, operation, decision",
    [
        ([], READ, None),
        ([allow("other")], READ, None),
        ([prefix("orders-")], READ, None),
        ([allow()], READ, True),
        ([allow()], WRITE, False),
        ([allow(principal="User:bob")], READ, False),
        ([allow(principal="User:*")], READ, True),
        ([allow(principal="user:alice")], READ, False),
        ([allow("*")], READ, True),
        ([prefix("ord")], READ, True),
        ([prefix("orders")], READ, True),
        ([prefix("*")], READ, None),
        ([allow(operation=ALL)], READ, True),
        ([allow(), deny()], READ, False),
        ([allow(), deny(operation=ALL)], READ, False),
        ([allow(), deny(operation=WRITE)], READ, True),
        ([allow("*"), deny()], READ, False),
        ([allow(), deny("*")], READ, False),
        ([allow(), deny_prefix("o")], READ, False),
        ([allow(), deny(principal="User:*")], READ, False),
        ([allow(), deny(principal="User:bob")], READ, True),
        ([allow(host="10.0.0.8")], READ, False),
        ([allow(), deny(host="10.0.0.8")], READ, True),
        # What ALLOW implies, and DENY does not.
        ([allow(operation=READ)], DESCRIBE, True),
        ([allow(operation=WRITE)], DESCRIBE, True),
        ([allow(operation=AclOperation.DELETE)], DESCRIBE, True),
        ([allow(operation=AclOperation.ALTER)], DESCRIBE, True),
        ([allow(operation=AclOperation.CREATE)], DESCRIBE, False),
        ([allow(operation=AclOperation.ALTER_CONFIGS)], DESCRIBE, False),
        ([allow(operation=AclOperation.ALTER_CONFIGS)], AclOperation.DESCRIBE_CONFIGS, True),
        ([allow(operation=AclOperation.ALTER)], AclOperation.DESCRIBE_CONFIGS, False),
        ([allow(operation=DESCRIBE)], READ, False),
        ([allow(operation=READ), deny(operation=WRITE)], DESCRIBE, True),
        ([allow(operation=READ), deny(operation=DESCRIBE)], DESCRIBE, False),
        ([allow(operation=READ), deny(operation=DESCRIBE)], READ, True),
    ],
)
def test_decisions(acls: list[AclBinding], operation: AclOperation, decision: bool | None) -> None:
    assert AclRules(acls).decide(ALICE, HOST, operation, ORDERS) is decision


@each(
    "pattern, host, matches",
    [
        ("*", "10.0.0.7", True),
        ("*", "somewhere", True),
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.70", False),
        ("somewhere", "somewhere", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("10.0.0.7", "::ffff:10.0.0.7", True),
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.7/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/8", "somewhere", False),
        ("0.0.0.0/0", "::1", False),
        ("2001:db8::/32", "2001:db8::7", True),
        ("2001:db8::/32", "2001:db9::7", False),
        ("10.0.0.0/99", "10.0.0.7", False),
        ("10.0.0.0/99", "", False),
    ],
)
def test_hosts(pattern: str, host: str, matches: bool) -> None:
    assert AclRules([allow(host=pattern)]).decide(ALICE, host, READ, ORDERS) is matches


def test_types_are_separate() -> None:
    rules = AclRules([allow(name) for name in ("*", "kafka-cluster")])
    assert rules.decide(ALICE, HOST, READ, CLUSTER) is None


def test_a_resource_named_like_the_wildcard() -> None:
    assert AclRules([allow("*")]).decide(ALICE, HOST, READ, Resource(TOPIC, "*")) is True
    assert AclRules([allow("x")]).decide(ALICE, HOST, READ, Resource(TOPIC, "")) is None


def test_adding_and_removing_may_repeat() -> None:
    rules = AclRules([allow(), allow(), prefix("ord")])
    assert len(rules) == 2
    assert rules.decide(ALICE, HOST, READ, ORDERS) is True
    for _ in range(2):
        rules.remove(allow())
        rules.remove(prefix("ord"))
    assert (len(rules), allow() in rules) == (0, False)
    assert rules.decide(ALICE, HOST, READ, ORDERS) is None
    assert list(rules.select(AclFilter())) == []


def test_an_acl_is_removed_and_its_neighbours_stay() -> None:
    rules = AclRules([allow(), allow(operation=WRITE), allow(principal="User:bob"), prefix("o"), prefix("x")])
    for acl in (allow(), prefix("o")):
        rules.remove(acl)
    assert rules.decide(ALICE, HOST, READ, ORDERS) is False
    assert rules.decide(ALICE, HOST, WRITE, ORDERS) is True
    assert rules.decide("User:bob", HOST, READ, ORDERS) is True
    assert rules.decide(ALICE, HOST, READ, Resource(TOPIC, "xy")) is True


def test_select_finds_one_acl_or_all_that_match() -> None:
    rules = AclRules([allow(), prefix("ord"), deny()])
    assert list(rules.select(AclFilter(*allow()))) == [allow()]
    assert list(rules.select(AclFilter(*allow("other")))) == []
    assert list(rules.select(AclFilter(pattern_type=PatternType.LITERAL))) == [allow(), deny()]


@each(
    "acls, decision",
    [
        ([], False),
        ([allow("x")], True),
        ([allow("x", ALL)], True),
        ([allow("x", WRITE)], False),
        ([allow("x", principal="User:bob")], False),
        ([allow("x", host="10.0.0.8")], False),
        ([prefix("x")], True),
        ([allow("*")], True),
        ([allow("*"), deny("x")], True),
        ([allow("*"), deny("*")], False),
        ([allow("x"), deny("*")], False),
        ([allow("x"), deny("x")], False),
        ([allow("x"), deny("y")], True),
        ([allow("xyz"), deny_prefix("xy")], False),
        ([allow("xyz"), deny_prefix("xyz")], False),
        ([allow("xyz"), deny_prefix("xyzz")], True),
        ([prefix("xyz"), deny_prefix("xy")], False),
        ([prefix("xyz"), deny("xyz")], True),
        ([allow("xyz"), allow("a"), deny_prefix("xy")], True),
        ([allow("*"), deny_prefix("x")], True),
    ],
)
def test_decisions_about_some_resource(acls: list[AclBinding], decision: bool) -> None:
    assert AclRules(acls).decide_any(ALICE, HOST, READ, TOPIC) is decision


def test_no_operation_implies_another_one_for_some_resource() -> None:
    assert not AclRules([allow("x", WRITE)]).decide_any(ALICE, HOST, DESCRIBE, TOPIC)
