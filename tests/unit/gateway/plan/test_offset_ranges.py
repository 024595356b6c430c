"""Offset ranges of requests about planned batches, and their messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.model import AcquiredRange, TopicIdPartition
from sharebroker_server.gateway.plan.offset_ranges import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Held,
    TypedRange,
    by_partition,
    column_pieces,
    committed_pieces,
    held_of,
    planned_columns,
    planned_ranges,
    verdict_pieces,
    with_staged,
    within,
)
from sharebroker_server.leader_calls.values import AcquireResult
from tests.unit.gateway.fakes import TOPIC


def piece(first: int, last: int, partition: int = 0, kind: int = ACCEPT, topic: str = "t") -> TypedRange:
    return TypedRange(topic, partition, first, last, kind)


def test_ranges_are_sorted_by_partition_and_offset() -> None:
    pieces = [piece(5, 6), piece(0, 1, 1), piece(0, 4), piece(7, 7, topic="other", kind=RENEW)]
    assert by_partition(pieces, "commit", 4) == {
        ("t", 0): [piece(0, 4), piece(5, 6)],
        ("t", 1): [piece(0, 1, 1)],
        ("other", 0): [piece(7, 7, topic="other", kind=RENEW)],
    }


@pytest.mark.parametrize(
    ("pieces", "field"),
    [
        ([piece(0, 1), piece(2, 3), piece(4, 5), piece(6, 7)], "commit"),
        ([piece(0, 1), piece(3, 2)], "commit[1]"),
        ([piece(-1, 2)], "commit[0]"),
        ([piece(0, 2, partition=-1)], "commit[0]"),
        ([piece(0, 1, kind=0)], "commit[0].type"),
        ([piece(0, 1, kind=5)], "commit[0].type"),
        ([piece(4, 8), piece(0, 4)], "commit"),
    ],
)
def test_invalid_ranges_are_rejected(pieces: list[TypedRange], field: str) -> None:
    with pytest.raises(KafkaError) as caught:
        by_partition(pieces, "commit", 3)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert [violation.field for violation in caught.value.violations] == [field]


OFFSETS = st.lists(st.integers(0, 60), min_size=0, max_size=8, unique=True).map(sorted)


def pairs(offsets: list[int]) -> list[tuple[int, int]]:
    return list(zip(offsets[::2], offsets[1::2], strict=False))


@given(OFFSETS, OFFSETS)
def test_within_is_the_intersection(named: list[int], kept: list[int]) -> None:
    found = within([piece(first, last) for first, last in pairs(named)], pairs(kept))
    offsets = [offset for one in found for offset in range(one.first, one.last + 1)]
    inside = {offset for first, last in pairs(kept) for offset in range(first, last + 1)}
    assert offsets == [x for first, last in pairs(named) for x in range(first, last + 1) if x in inside]


def test_staged_verdicts_replace_the_committed_type() -> None:
    pieces = {("t", 0): [piece(0, 9), piece(20, 29)], ("u", 0): [piece(0, 0, topic="u")]}
    staged = [piece(25, 40, kind=REJECT), piece(3, 4, kind=RELEASE), piece(0, 9, 7, REJECT)]
    rest = {("u", 0): [piece(0, 0, topic="u")]}
    assert with_staged(pieces, staged, applied=False) == {
        ("t", 0): [
            piece(0, 2), piece(3, 4, kind=RELEASE), piece(5, 9), piece(20, 24), piece(25, 29, kind=REJECT),
        ],
        **rest,
    }  # fmt: skip
    assert with_staged(pieces, staged, applied=True) == {
        ("t", 0): [piece(0, 2), piece(5, 9), piece(20, 24), piece(25, 29, kind=REJECT)],
        **rest,
    }
    assert with_staged(pieces, [], applied=False) == pieces


HELD: Held = {
    ("b", 0): [AcquiredRange(4, 5, 1, 7, 1.5)],
    ("a", 1): [AcquiredRange(0, 2, 3, 7, 2.0)],
    ("c", 0): [],
}


def test_columns_and_verdicts_become_ranges() -> None:
    span = pb.PlanRange(topic="t", partition=1, first_offset=2, last_offset=3)
    request = pb.CommitRequest(
        commit=[pb.PlanVerdict(range=span, type=3)],  # type: ignore[arg-type]  # REJECT
        accepted=[pb.PlanColumns(topic="t", partitions=[0, 0], first_offsets=[0, 5], last_offsets=[4, 9])],
    )
    assert committed_pieces(request) == [
        TypedRange("t", 1, 2, 3, 3),
        TypedRange("t", 0, 0, 4, ACCEPT),
        TypedRange("t", 0, 5, 9, ACCEPT),
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
