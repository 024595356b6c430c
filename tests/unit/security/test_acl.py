"""The numbers are Kafka's; filters select ACLs as Kafka's `AclBindingFilter` does."""

from __future__ import annotations

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
from tests.testkit.tables import each

LITERAL = binding(2, "orders", 3, "User:alice", "*", 3, 3)
PREFIXED = binding(2, "ord", 4, "User:bob", "10.0.0.7", 4, 2)
EVERY = binding(2, "*", 3, "User:*", "*", 2, 3)
GROUP = binding(3, "orders", 3, "User:alice", "*", 3, 3)
ACLS = {"literal": LITERAL, "prefixed": PREFIXED, "every": EVERY, "group": GROUP}
ALL = sorted(ACLS)


def test_numbers_are_kafkas() -> None:
    assert [(one.name, one.value) for one in AclResourceType] == [
        ("TOPIC", 2),
        ("GROUP", 3),
        ("CLUSTER", 4),
        ("TRANSACTIONAL_ID", 5),
        ("DELEGATION_TOKEN", 6),
        ("USER", 7),
    ]
    assert " ".join(one.name for one in sorted(AclOperation)) == (
        "ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS "
        "IDEMPOTENT_WRITE CREATE_TOKENS DESCRIBE_TOKENS TWO_PHASE_COMMIT"
    )
    assert (AclOperation.ALL, AclOperation.READ, AclOperation.TWO_PHASE_COMMIT) == (2, 3, 15)
    assert (PatternType.LITERAL, PatternType.PREFIXED) == (3, 4)
    assert (AclPermissionType.DENY, AclPermissionType.ALLOW) == (2, 3)
    assert (ANY, MATCH) == (1, 2)


def test_the_cluster_has_kafkas_name() -> None:
    assert CLUSTER == (AclResourceType.CLUSTER, "kafka-cluster")


@each(
    "wanted, selected",
    [
        (AclFilter(), ALL),
        (AclFilter(resource_type=2), ["every", "literal", "prefixed"]),
        (AclFilter(resource_name="orders"), ["group", "literal"]),
        (AclFilter(resource_name="ord"), ["prefixed"]),
        (AclFilter(resource_name="*"), ["every"]),
        (AclFilter(pattern_type=PatternType.LITERAL), ["every", "group", "literal"]),
        (AclFilter(pattern_type=PatternType.PREFIXED), ["prefixed"]),
        (AclFilter(pattern_type=PatternType.PREFIXED, resource_name="orders"), []),
        (AclFilter(pattern_type=MATCH), ALL),
        (AclFilter(pattern_type=MATCH, resource_name="orders"), ALL),
        (AclFilter(pattern_type=MATCH, resource_name="ord"), ["every", "prefixed"]),
        (AclFilter(pattern_type=MATCH, resource_name="or"), ["every"]),
        (AclFilter(pattern_type=MATCH, resource_name="*"), ["every"]),
        (AclFilter(principal="User:alice"), ["group", "literal"]),
        (AclFilter(principal="User:*"), ["every"]),
        (AclFilter(host="10.0.0.7"), ["prefixed"]),
        (AclFilter(operation=AclOperation.READ), ["group", "literal"]),
        (AclFilter(operation=AclOperation.ALL), ["every"]),
        (AclFilter(permission_type=AclPermissionType.DENY), ["prefixed"]),
    ],
)
def test_filters_select_acls(wanted: AclFilter, selected: list[str]) -> None:
    assert sorted(name for name, acl in ACLS.items() if wanted.matches(acl)) == selected


def test_a_filter_without_open_fields_names_its_only_acl() -> None:
    assert AclFilter(*LITERAL).only() == LITERAL
    assert isinstance(AclFilter(2, "ord", 4, "User:bob", "10.0.0.7", 4, 2).only(), AclBinding)
    assert AclFilter(*LITERAL)._replace(host=None).only() is None
    assert AclFilter(*LITERAL)._replace(operation=ANY).only() is None
    assert AclFilter(*LITERAL)._replace(pattern_type=MATCH).only() is None
