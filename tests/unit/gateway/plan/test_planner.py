"""What is asked of a planned session, by partition; and what read_committed shows of batches."""

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
from sharebroker_server.gateway.core.read_committed import committed_batches, headers_of
from sharebroker_server.record_log.core.batch import assign, parse_headers
from sharebroker_server.record_log.core.control import marker_batch
from sharebroker_server.record_log.core.producers import Marker
from tests.unit.record_log.batches import LIMIT, batch


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
def test_what_cannot_be_is_refused(pieces: list[Piece], field: str) -> None:
    with pytest.raises(KafkaError) as caught:
        by_partition(pieces, "commit", 3)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert [violation.field for violation in caught.value.violations] == [field]


OFFSETS = st.lists(st.integers(0, 60), min_size=0, max_size=8, unique=True).map(sorted)


def pairs(offsets: list[int]) -> list[tuple[int, int]]:
    return list(zip(offsets[::2], offsets[1::2], strict=False))


@given(OFFSETS, OFFSETS)
def test_what_is_still_meant_is_what_lies_in_both(named: list[int], kept: list[int]) -> None:
    found = within([piece(first, last) for first, last in pairs(named)], pairs(kept))
    offsets = [offset for one in found for offset in range(one.first, one.last + 1)]
    inside = {offset for first, last in pairs(kept) for offset in range(first, last + 1)}
    assert offsets == [x for first, last in pairs(named) for x in range(first, last + 1) if x in inside]


def test_what_was_staged_is_said_instead() -> None:
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


def spans(records: bytes) -> list[tuple[int, int]]:
    return [(header.base_offset, header.last_offset) for header, _ in headers_of(records)]


def log(*parts: tuple[int, int | bool]) -> bytes:
    """Batches of two records by a transaction of a producer (-1: by none), or its marker (True: commit)."""
    offset, found = 0, b""
    for producer, what in parts:
        if isinstance(what, bool):
            stored = marker_batch(Marker(producer, 0, 0, what), offset, 1, 1000)
        else:
            data = batch(2, producer=(producer, 0, what) if producer >= 0 else (-1, -1, -1),
                         transactional=producer >= 0)  # fmt: skip
            stored = assign(data, parse_headers(data, LIMIT), offset, 1)[0]
        found, offset = found + stored.data, stored.last_offset + 1
    return found


def test_headers_are_read_one_after_the_other() -> None:
    assert spans(log((-1, 0), (1, 0), (1, False))) == [(0, 1), (2, 3), (4, 4)]
    assert spans(b"") == []


def test_markers_and_what_was_aborted_are_not_shown() -> None:
    records = log((1, 0), (2, 0), (-1, 0), (1, False), (2, True), (1, 2), (1, True))
    assert spans(committed_batches(records, [(1, 0)])) == [(2, 3), (4, 5), (8, 9)]
    assert spans(committed_batches(records, [])) == [(0, 1), (2, 3), (4, 5), (8, 9)]


def test_two_aborted_transactions_of_one_producer() -> None:
    records = log((1, 0), (1, False), (1, 2), (1, True), (1, 4), (1, False))
    assert spans(committed_batches(records, [(1, 6), (1, 0)])) == [(3, 4)]


def test_one_that_began_before_what_was_read() -> None:
    records = log((-1, 0), (1, 0), (1, 2), (1, False))
    behind = records[len(log((-1, 0), (1, 0))) :]
    assert spans(committed_batches(behind, [(1, 2)])) == []
