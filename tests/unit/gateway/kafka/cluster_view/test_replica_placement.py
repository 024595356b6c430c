"""Replica assignments are checked as Kafka does."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.cluster_view.replica_placement import (
    check_assignments,
    check_numbering,
    check_replication_factor,
)


def test_valid_placements() -> None:
    check_replication_factor(-1, [1])
    check_replication_factor(2, [1, 2])
    check_assignments([[1, 2], [2, 1]], [1, 2])
    check_numbering([1, 0, 2])


@pytest.mark.parametrize("factor", [0, -2, 3])
def test_invalid_replication_factors(factor: int) -> None:
    with pytest.raises(KafkaError) as error:
        check_replication_factor(factor, [1, 2])
    assert error.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    "assignments", [[[]], [[1, 1]], [[3]], [[1], [1, 2]]], ids=["empty", "twice", "unknown", "uneven"]
)
def test_invalid_assignments(assignments: list[list[int]]) -> None:
    with pytest.raises(KafkaError) as error:
        check_assignments(assignments, [1, 2])
    assert error.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("partitions", [[1], [0, 2], [0, 0]])
def test_partitions_are_numbered_without_gaps(partitions: list[int]) -> None:
    with pytest.raises(KafkaError) as error:
        check_numbering(partitions)
    assert error.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
