"""The authorizer: super users, brokers, the default without ACLs, and a bounded cache of decisions."""

from __future__ import annotations

import pytest

from sharebroker_server.security import acl_authorizer as module
from sharebroker_server.security.acl import (
    CLUSTER,
    AclOperation,
    AclResourceType,
    Requester,
    Resource,
    binding,
)
from sharebroker_server.security.acl_authorizer import AclAuthorizer
from sharebroker_server.security.acl_rules import AclRules
from sharebroker_server.security.authorizer import Authorizer
from sharebroker_server.security.principal import Principal

TOPIC = AclResourceType.TOPIC
READ, WRITE = AclOperation.READ, AclOperation.WRITE
ORDERS = Resource(TOPIC, "orders")
ALICE = Requester(Principal("alice"), "10.0.0.7")
BOB = Requester(Principal("bob"), "10.0.0.7")
READ_ORDERS = binding(2, "orders", 3, "User:alice", "*", 3, 3)


class Source:
    """ACLs, and how often they were asked."""

    def __init__(self, *super_users: str) -> None:
        self.rules = AclRules([READ_ORDERS])
        self.super_users = super_users
        self.uses = 0

    @property
    def acls(self) -> AclRules:
        self.uses += 1
        return self.rules

    def is_super_user(self, name: str) -> bool:
        return name in self.super_users


def test_acls_decide_and_the_default_is_to_deny() -> None:
    authorizer: Authorizer = AclAuthorizer(Source())
    assert authorizer.allows(ALICE, READ, ORDERS)
    assert not authorizer.allows(ALICE, WRITE, ORDERS)
    assert not authorizer.allows(BOB, READ, ORDERS)
    assert not authorizer.allows(ALICE, READ, Resource(TOPIC, "other"))
    assert authorizer.allows_any(ALICE, READ, TOPIC)
    assert not authorizer.allows_any(BOB, READ, TOPIC)


def test_everyone_may_use_a_resource_without_acls_if_configured() -> None:
    authorizer = AclAuthorizer(Source(), default=True)
    assert authorizer.allows(BOB, READ, Resource(TOPIC, "other"))
    assert not authorizer.allows(BOB, READ, ORDERS)
    assert authorizer.allows_any(BOB, READ, TOPIC)


@pytest.mark.parametrize(
    "authorizer",
    [AclAuthorizer(Source(), super_users=["User:bob"]), AclAuthorizer(Source("bob"))],
    ids=["super.users", "catalog"],
)
def test_super_users_may_do_everything(authorizer: AclAuthorizer) -> None:
    assert authorizer.allows(BOB, WRITE, ORDERS)
    assert authorizer.allows(BOB, AclOperation.ALTER, CLUSTER)
    assert authorizer.allows_any(BOB, WRITE, AclResourceType.GROUP)
    assert not authorizer.allows(BOB._replace(principal=Principal("bob", "Group")), WRITE, ORDERS)


def test_deny_does_not_bind_super_users() -> None:
    source = Source("bob")
    source.rules.add(binding(2, "*", 3, "User:*", "*", 2, 2))
    authorizer = AclAuthorizer(source)
    assert authorizer.allows(BOB, READ, ORDERS)
    assert authorizer.allows_any(BOB, READ, TOPIC)
    assert not authorizer.allows(ALICE, READ, ORDERS)


def test_brokers_may_do_cluster_action_and_nothing_else() -> None:
    authorizer = AclAuthorizer(Source(), brokers=["bob"])
    assert authorizer.allows(BOB, AclOperation.CLUSTER_ACTION, CLUSTER)
    assert not authorizer.allows(BOB, AclOperation.ALTER, CLUSTER)
    assert not authorizer.allows(BOB, READ, ORDERS)
    assert not authorizer.allows(ALICE, AclOperation.CLUSTER_ACTION, CLUSTER)


def test_decisions_are_cached_until_a_change() -> None:
    source = Source()
    authorizer = AclAuthorizer(source)
    for _ in range(3):
        assert authorizer.allows(ALICE, READ, ORDERS)
        assert authorizer.allows_any(ALICE, READ, TOPIC)
    uses = source.uses
    source.rules.remove(READ_ORDERS)
    assert authorizer.allows(ALICE, READ, ORDERS)
    assert source.uses == uses
    version = authorizer.version
    authorizer.invalidate()
    assert authorizer.version != version, "callers cache decisions, too"
    assert not authorizer.allows(ALICE, READ, ORDERS)
    assert not authorizer.allows_any(ALICE, READ, TOPIC)


def test_each_part_of_a_question_has_its_own_decision() -> None:
    source = Source()
    source.rules.add(binding(2, "orders", 3, "User:alice", "10.0.0.8", 3, 2))
    authorizer = AclAuthorizer(source)
    for _ in range(2):
        assert authorizer.allows(ALICE, READ, ORDERS)
        assert not authorizer.allows(ALICE._replace(host="10.0.0.8"), READ, ORDERS)
        assert not authorizer.allows(ALICE, READ, Resource(AclResourceType.GROUP, "orders"))
        assert authorizer.allows(ALICE, AclOperation.DESCRIBE, ORDERS)


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DECISIONS", 3)
    source = Source()
    authorizer = AclAuthorizer(source)
    for number in range(10):
        assert not authorizer.allows(ALICE, READ, Resource(TOPIC, str(number)))
        authorizer.allows_any(Requester(Principal(str(number)), "h"), READ, TOPIC)
        assert sum(len(kinds) for row in authorizer._decisions for kinds in row) <= 3
    assert authorizer.allows(ALICE, READ, ORDERS)


def test_decisions_about_long_names_are_not_cached() -> None:
    source = Source()
    authorizer = AclAuthorizer(source)
    long = Resource(TOPIC, "x" * (module.LONGEST_NAME + 1))
    assert not authorizer.allows(ALICE, READ, long)
    uses = source.uses
    assert not authorizer.allows(ALICE, READ, long)
    assert source.uses == uses + 1
