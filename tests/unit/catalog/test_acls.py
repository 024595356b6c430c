"""ACLs: Kafka's rules for them, their limits, and the log that stores them."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog import acls as module
from sharebroker_server.catalog.acls import (
    LONGEST_TEXT,
    AclCommand,
    AclDeletedRecord,
    AclRecord,
    CreateAcl,
    DeleteAcls,
    apply_acl,
    check_filter,
    decide_acl,
    new_acl,
)
from sharebroker_server.catalog.machine import CatalogCommand, CatalogMachine
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.live_keys import SLACK
from sharebroker_server.security.acl import ANY, AclFilter, binding
from sharebroker_server.security.acl_rules import AclRules
from tests.testkit.tables import each

ACL = binding(2, "orders", 3, "User:alice", "*", 3, 3)
OTHER = ACL._replace(resource_name="other")


def changed(*commands: AclCommand) -> AclRules:
    acls = AclRules()
    for command in commands:
        for record in decide_acl(acls, command):
            apply_acl(acls, record)
    return acls


def test_an_acl_is_created_once() -> None:
    assert decide_acl(AclRules(), CreateAcl(ACL)) == (AclRecord(ACL),)
    assert decide_acl(AclRules([ACL]), CreateAcl(ACL)) == ()


def test_a_filter_deletes_selected_acls() -> None:
    command = DeleteAcls(AclFilter(principal="User:alice"))
    assert decide_acl(AclRules([ACL, OTHER]), command) == (AclDeletedRecord(ACL), AclDeletedRecord(OTHER))
    assert list(
        changed(CreateAcl(ACL), CreateAcl(OTHER), DeleteAcls(AclFilter(*ACL))).select(AclFilter())
    ) == [OTHER]
    assert decide_acl(AclRules([ACL]), DeleteAcls(AclFilter(principal="User:bob"))) == ()


def test_acls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ACLS", 1)
    monkeypatch.setattr(module, "MAX_DELETED_AT_ONCE", 1)
    with pytest.raises(KafkaError) as caught:
        decide_acl(AclRules([ACL]), CreateAcl(OTHER))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert decide_acl(AclRules([ACL]), CreateAcl(ACL)) == ()
    assert decide_acl(AclRules([ACL, OTHER]), DeleteAcls(AclFilter())) == (AclDeletedRecord(ACL),)


VALID: dict[str, str | int] = {
    "resource_type": 2,
    "resource_name": "orders",
    "pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"pattern_type": 4},
        {"resource_type": 4, "resource_name": "kafka-cluster"},
        {"resource_type": 7},
        {"host": "10.0.0.0/8"},
        {"host": "2001:db8::/32"},
        {"host": "somewhere"},
        {"principal": "Group:", "operation": 15, "permission_type": 2},
        {"resource_name": "x" * LONGEST_TEXT},
    ],
)
def test_valid_acls(fields: dict[str, str | int]) -> None:
    values = VALID | fields
    assert new_acl(**values)._asdict() == values  # type: ignore[arg-type]  # texts and numbers


@each(
    "fields, message",
    [
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 8}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": 1}, "Invalid patternType ANY"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"pattern_type": 5}, "Invalid patternType UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": -1}, "Invalid operation UNKNOWN"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"permission_type": 4}, "Invalid permissionType UNKNOWN"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "alice"}, "no colon is present"),
        ({"host": ""}, "Invalid empty host"),
        ({"host": "10.0.0.0/33"}, "Invalid CIDR notation: 10.0.0.0/33"),
        ({"host": "example.com/a"}, "Invalid CIDR notation: example.com/a"),
        ({"resource_name": "x" * (LONGEST_TEXT + 1)}, "at most 1024 characters"),
        ({"principal": ":" * (LONGEST_TEXT + 1)}, "at most 1024 characters"),
        ({"host": "x" * (LONGEST_TEXT + 1)}, "at most 1024 characters"),
    ],
)
def test_invalid_acls_are_rejected(fields: dict[str, str | int], message: str) -> None:
    with pytest.raises(KafkaError, match=message) as caught:
        new_acl(**VALID | fields)  # type: ignore[arg-type]  # texts and numbers
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (AclFilter(resource_type=0), "Unknown patternFilter."),
        (AclFilter(pattern_type=5), "Unknown patternFilter."),
        (AclFilter(operation=16), "Unknown entryFilter."),
        (AclFilter(permission_type=0), "Unknown entryFilter."),
    ],
)
def test_filters_with_unknown_numbers_are_rejected(wanted: AclFilter, message: str) -> None:
    assert check_filter(AclFilter()) == (ANY, None, ANY, None, None, ANY, ANY)
    with pytest.raises(KafkaError, match=message) as caught:
        check_filter(wanted)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_acls_survive_the_trimming_of_the_log() -> None:
    machine = CatalogMachine(BrokerConfig.parse(()))
    position = 0

    def run(command: CatalogCommand) -> object:
        nonlocal position
        decision = machine.decide(command, 0.0)
        for record in decision.records:
            position += 1
            machine.apply(record, position)
        return decision.reply

    assert run(CreateAcl(ACL)) == (ACL,)
    for _ in range(SLACK):
        assert run(CreateAcl(OTHER)) == (OTHER,)
        assert run(DeleteAcls(AclFilter(*OTHER))) == (OTHER,)
    assert machine.trim_before() > 1
    assert list(machine.catalog.acls.select(AclFilter())) == [ACL]
