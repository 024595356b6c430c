"""Offset ranges of requests about planned batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.core.planning import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Piece,
    by_partition,
    with_staged,
    within,
)


def piece(first: int, last: int, partition: int = 0, kind: int = ACCEPT, topic: str = "t") -> Piece:
    return Piece(topic, partition, first, last, kind)


def test_pieces_are_sorted_by_partition_and_offset() -> None:
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
def test_invalid_pieces_are_rejected(pieces: list[Piece], field: str) -> None:
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
