"""Messages of planned batches."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.model import AcquiredRange, TopicIdPartition
from sharebroker_server.gateway.core.planning import ACCEPT, RENEW, Piece
from sharebroker_server.gateway.plan.messages import (
    Held,
    column_pieces,
    committed_pieces,
    held_of,
    planned_columns,
    planned_ranges,
    verdict_pieces,
)
from sharebroker_server.leader_calls.values import AcquireResult
from tests.unit.gateway.fakes import TOPIC

HELD: Held = {
    ("b", 0): [AcquiredRange(4, 5, 1, 7, 1.5)],
    ("a", 1): [AcquiredRange(0, 2, 3, 7, 2.0)],
    ("c", 0): [],
}


def test_columns_and_verdicts_become_pieces() -> None:
    span = pb.PlanRange(topic="t", partition=1, first_offset=2, last_offset=3)
    request = pb.CommitRequest(
        commit=[pb.PlanVerdict(range=span, type=3)],  # type: ignore[arg-type]  # REJECT
        accepted=[pb.PlanColumns(topic="t", partitions=[0, 0], first_offsets=[0, 5], last_offsets=[4, 9])],
    )
    assert committed_pieces(request) == [
        Piece("t", 1, 2, 3, 3),
        Piece("t", 0, 0, 4, ACCEPT),
        Piece("t", 0, 5, 9, ACCEPT),
    ]


def test_columns_of_different_length_are_rejected() -> None:
    with pytest.raises(KafkaError) as failure:
        column_pieces([pb.PlanColumns(partitions=[0])], "accepted", ACCEPT)
    assert failure.value.violations[0].field == "accepted[0]"


def test_renewal_is_not_a_verdict() -> None:
    with pytest.raises(KafkaError) as failure:
        verdict_pieces([pb.PlanVerdict(type=RENEW)])  # type: ignore[arg-type]
    assert failure.value.code is ErrorCode.INVALID_REQUEST


def test_held_locks_are_sorted_by_partition() -> None:
    found = [
        (item.range.topic, item.range.first_offset, item.lock_deadline_ms) for item in planned_ranges(HELD)
    ]
    assert found == [("a", 0, 2000), ("b", 4, 1500)]


def test_columns_have_one_entry_per_topic_with_locks() -> None:
    first, second = planned_columns(HELD)
    assert (first.topic, list(first.partitions), list(first.delivery_counts)) == ("a", [1], [3])
    assert (second.topic, list(second.last_offsets)) == ("b", [5])


def test_acquired_ranges_are_held() -> None:
    part = TopicIdPartition(TOPIC.topic_id, 1)
    runs = [AcquiredRange(0, 2, 3, 7, 2.0)]
    assert held_of([(TOPIC, ())], {part: AcquireResult(*part, acquired=runs)}) == {(TOPIC.name, 1): runs}
