"""The numbers of operations and resource types are Kafka's (`AclOperation`, `ResourceType`)."""

from __future__ import annotations

from sharebroker_server.security.acl import CLUSTER, AclOperation, AclResourceType


def test_operations_and_types_have_kafkas_numbers() -> None:
    assert {(one.name, one.value) for one in AclResourceType} == {
        ("TOPIC", 2),
        ("GROUP", 3),
        ("CLUSTER", 4),
        ("TRANSACTIONAL_ID", 5),
    }
    assert [one.name for one in sorted(AclOperation)] == [
        "READ",
        "WRITE",
        "CREATE",
        "DELETE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
    ]
    assert (AclOperation.READ, AclOperation.IDEMPOTENT_WRITE) == (3, 12)


def test_the_cluster_has_kafkas_name() -> None:
    assert CLUSTER == (AclResourceType.CLUSTER, "kafka-cluster")
