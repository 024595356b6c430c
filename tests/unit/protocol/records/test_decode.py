"""Of a delivery only acquired offsets become records; every other acquired offset is accounted for."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.records.decode import Decoded, decode
from sharebroker_protocol.records.record import AcknowledgeType
from tests.unit.client.batches import acquisition, batch, control_batch, sealed

GAP, RELEASE, REJECT = AcknowledgeType.GAP, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


def values(count: int) -> list[bytes | None]:
    return [b"v%d" % n for n in range(count)]


def offsets(decoded: Decoded) -> list[int]:
    return [record.offset for record in decoded.records]


def unreadable(decoded: Decoded) -> list[tuple[int, int, AcknowledgeType]]:
    return [(span.first, span.last, span.kind) for span in decoded.unreadable]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_decoded_record_has_all_fields(compression: str) -> None:
    acquired = acquisition(10, 12)
    acquired.delivery_count = 3
    acquired.deadline = 99.5
    decoded = decode(batch(10, values(3), compression=compression), [acquired])
    assert offsets(decoded) == [10, 11, 12]
    record = decoded.records[2]
    assert (record.topic, record.partition, record.key, record.value) == ("flights", 0, b"k", b"v2")
    assert (record.timestamp, record.headers) == (1002, [])
    assert (record.delivery_count, record.deadline) == (3, 99.5)
    assert repr(record) == "Record(flights-0@12, delivery 3)"
    assert decoded.unreadable == []


@pytest.mark.parametrize(
    ("acquired", "expected"),
    [
        ([(10, 19)], list(range(10, 20))),
        ([(12, 13)], [12, 13]),
        ([(10, 10), (19, 19)], [10, 19]),
        ([(11, 12), (14, 15), (17, 17)], [11, 12, 14, 15, 17]),
    ],
)
def test_only_acquired_offsets_are_delivered(acquired: list[tuple[int, int]], expected: list[int]) -> None:
    decoded = decode(batch(10, values(10)), [acquisition(*span) for span in acquired])
    assert offsets(decoded) == expected
    assert decoded.unreadable == []


def test_an_acquisition_may_span_batches_and_a_batch_acquisitions() -> None:
    spans = [acquisition(0, 6), acquisition(7, 9), acquisition(12, 14)]
    decoded = decode(batch(0, values(5)) + batch(5, values(5)) + batch(10, values(5)), spans)
    assert offsets(decoded) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14]
    assert decoded.records[7].acquisition is spans[1]


def test_batches_outside_acquisitions_are_not_decoded() -> None:
    broken = b"\0" * 8 + struct.pack(">i", 49) + b"\0" * 49
    decoded = decode(broken + batch(5, values(5)) + batch(10, values(5)), [acquisition(5, 9)])
    assert offsets(decoded) == [5, 6, 7, 8, 9]


def test_missing_offsets_are_gaps() -> None:
    decoded = decode(batch(0, [b"0", None, b"2", None, None, b"5", None]), [acquisition(0, 6)])
    assert offsets(decoded) == [0, 2, 5]
    assert unreadable(decoded) == [(1, 1, GAP), (3, 4, GAP), (6, 6, GAP)]


def test_whole_batches_may_be_missing() -> None:
    decoded = decode(batch(5, values(2)) + batch(9, values(1)), [acquisition(3, 11)])
    assert offsets(decoded) == [5, 6, 9]
    assert unreadable(decoded) == [(3, 4, GAP), (7, 8, GAP), (10, 11, GAP)]


def test_empty_data_is_one_gap() -> None:
    assert unreadable(decode(b"", [acquisition(3, 11)])) == [(3, 11, GAP)]


def test_control_batches_are_gaps() -> None:
    decoded = decode(batch(0, values(2)) + control_batch(2) + batch(3, values(2)), [acquisition(0, 4)])
    assert offsets(decoded) == [0, 1, 3, 4]
    assert unreadable(decoded) == [(2, 2, GAP)]


def test_wrong_checksum_rejects_acquired_offsets_of_batch() -> None:
    broken = bytearray(batch(5, values(5)))
    broken[70] ^= 1
    decoded = decode(batch(0, values(5)) + bytes(broken) + batch(10, values(5)), [acquisition(3, 11)])
    assert offsets(decoded) == [3, 4, 10, 11]
    assert unreadable(decoded) == [(5, 9, REJECT)]


def test_corrupt_batch_before_acquisition_is_ignored() -> None:
    broken = bytearray(batch(0, values(5)))
    broken[70] ^= 1
    decoded = decode(bytes(broken) + batch(5, [b"5", None, b"7"]), [acquisition(4, 4), acquisition(5, 7)])
    assert offsets(decoded) == [5, 7]
    assert unreadable(decoded) == [(4, 4, REJECT), (6, 6, GAP)]


@pytest.mark.parametrize("codec", [4, 7], ids=["not zstd at all", "no such compression"])
def test_undecompressable_batch_is_released(codec: int) -> None:
    data = bytearray(batch(0, values(5)))
    struct.pack_into(">h", data, 21, codec)
    decoded = decode(sealed(data, 0) + batch(5, values(2)), [acquisition(0, 5)])
    assert offsets(decoded) == [5]
    assert unreadable(decoded) == [(0, 4, RELEASE)]


def test_invalid_record_list_is_released_as_a_whole() -> None:
    data = bytearray(batch(0, values(5)))
    struct.pack_into(">i", data, 57, 4)
    decoded = decode(sealed(data, 0), [acquisition(1, 2), acquisition(4, 4)])
    assert offsets(decoded) == []
    assert unreadable(decoded) == [(1, 2, RELEASE), (4, 4, RELEASE)]


@pytest.mark.parametrize("missing", [1, 30, 80])
def test_an_incomplete_last_batch_is_released(missing: int) -> None:
    decoded = decode(batch(0, values(5)) + batch(5, values(5))[:-missing], [acquisition(0, 9)])
    assert offsets(decoded) == [0, 1, 2, 3, 4]
    assert unreadable(decoded) == [(5, 9, RELEASE)]


def test_an_impossible_length_is_released() -> None:
    data = bytearray(batch(0, values(5)))
    struct.pack_into(">i", data, 8, 3)
    assert unreadable(decode(bytes(data), [acquisition(2, 9)])) == [(2, 9, RELEASE)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.lists(st.booleans(), min_size=1, max_size=6)), max_size=5),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6),
)
def test_every_acquired_offset_is_accounted_for(
    batches: list[tuple[int, list[bool]]], spans: list[tuple[int, int]]
) -> None:
    data, next_offset, present = b"", 0, set()
    for hole, kept in batches:
        base = next_offset + hole
        data += batch(base, [b"v" if keep else None for keep in kept])
        present |= {base + delta for delta, keep in enumerate(kept) if keep}
        next_offset = base + len(kept)
    acquired, start = [], 0
    for gap, length in spans:
        acquired.append(acquisition(start + gap, start + gap + length))
        start += gap + length + 1
    wanted = {offset for a in acquired for offset in range(a.first, a.last + 1)}
    decoded = decode(data, acquired)
    assert offsets(decoded) == sorted(wanted & present)
    gaps = [offset for span in decoded.unreadable for offset in range(span.first, span.last + 1)]
    assert gaps == sorted(wanted - present)
    assert all(r.acquisition.first <= r.offset <= r.acquisition.last for r in decoded.records)
    assert all(s.acquisition.first <= s.first <= s.last <= s.acquisition.last for s in decoded.unreadable)
