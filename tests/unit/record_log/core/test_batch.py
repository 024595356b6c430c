from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from crc32c import crc32c

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.sequences import SEQUENCES
from sharebroker_server.record_log.core.batch import (
    HEADER_SIZE,
    StoredBatch,
    assign,
    gaps,
    header_of,
    parse_headers,
    spanned,
)
from tests.testkit.tables import each
from tests.unit.record_log.batches import LIMIT, batch


def patched(data: bytes, position: int, fmt: str, value: int, *, crc: bool = True) -> bytes:
    """The batch with one field overwritten, and by default a CRC that fits again."""
    changed = bytearray(data)
    struct.pack_into(fmt, changed, position, value)
    if crc:
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def test_header_equals_the_encoders_fields() -> None:
    data = batch(5, time=1700, producer=(77, 3, 40), transactional=True, codec=1)
    (header,) = parse_headers(data, LIMIT)
    assert header.size == len(data)
    assert (header.base_offset, header.last_offset_delta, header.last_offset) == (0, 4, 4)
    assert (header.record_count, header.magic, header.codec) == (5, 2, 1)
    assert (header.base_timestamp, header.max_timestamp) == (1700, 1704)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 40)
    assert header.transactional
    assert not header.control
    assert not header.log_append_time


def test_several_batches_in_one_request() -> None:
    data = batch(2) + batch(7, codec=4) + batch(1, 0)
    headers = parse_headers(data, LIMIT)
    assert [header.record_count for header in headers] == [2, 7, 1]
    batches = assign(data, headers, 100, 9)
    assert [(b.base_offset, b.last_offset) for b in batches] == [(100, 101), (102, 108), (109, 109)]
    assert [header_of(b.data).leader_epoch for b in batches] == [9, 9, 9]
    assert sum(len(b.data) for b in batches) == len(data)


def test_consecutive_batches_of_a_producer_span_one_sequence() -> None:
    begin = SEQUENCES - 5
    data = (
        batch(4, producer=(5, 1, begin)) + batch(3, producer=(5, 1, begin + 4)) + batch(1, producer=(5, 1, 2))
    )
    span = spanned(parse_headers(data, LIMIT))
    assert (span.producer_id, span.producer_epoch, span.base_sequence) == (5, 1, begin)
    assert (span.record_count, span.last_offset_delta) == (8, 7)


@pytest.mark.parametrize("codec", range(5))
def test_assigned_batch_is_read_by_an_independent_decoder(codec: int) -> None:
    data = batch(4, 50, time=5000, codec=codec)
    (stored,) = assign(data, parse_headers(data, LIMIT), 2**40, 3)
    decoded = DefaultRecordBatch(stored.data)
    assert decoded.validate_crc()
    assert [(r.offset, r.timestamp, bytes(r.value)) for r in decoded] == [
        (2**40 + i, 5000 + i, b"x" * 50) for i in range(4)
    ]
    assert stored == StoredBatch.from_bytes(stored.data)
    assert stored.max_timestamp == 5003


def test_log_append_time_stamps_every_record() -> None:
    data = batch(3, time=5000) + batch(1, codec=3)
    first, second = assign(data, parse_headers(data, LIMIT), 10, 3, log_append_ms=9_999)
    for stored in (first, second):
        decoded = DefaultRecordBatch(stored.data)
        assert decoded.validate_crc()
        assert {r.timestamp for r in decoded} == {9_999}
        assert header_of(stored.data).log_append_time
        assert stored.max_timestamp == 9_999
    assert header_of(second.data).codec == 3


def test_memoryview_and_bytes_parse_alike() -> None:
    data = batch(3)
    assert parse_headers(memoryview(data), LIMIT) == parse_headers(data, LIMIT)
    headers = parse_headers(data, LIMIT)
    assert assign(memoryview(data), headers, 5, 1) == assign(data, headers, 5, 1)


def test_fields_outside_the_crc_are_overwritten() -> None:
    data = patched(batch(3), 12, ">i", 678, crc=False)
    (stored,) = assign(data, parse_headers(data, LIMIT), 7, 2)
    assert stored.data == assign(batch(3), parse_headers(batch(3), LIMIT), 7, 2)[0].data


GOOD = batch(3)
REFUSED = [
    (b"", ErrorCode.INVALID_RECORD),
    (GOOD[: HEADER_SIZE - 1], ErrorCode.CORRUPT_MESSAGE),
    (GOOD[:-1], ErrorCode.CORRUPT_MESSAGE),
    (patched(GOOD, 0, ">q", 77, crc=False), ErrorCode.INVALID_RECORD),
    (GOOD + b"\0", ErrorCode.CORRUPT_MESSAGE),
    (GOOD + GOOD[:70], ErrorCode.CORRUPT_MESSAGE),
    (patched(GOOD, 8, ">i", -1), ErrorCode.CORRUPT_MESSAGE),
    (patched(GOOD, 8, ">i", 48), ErrorCode.CORRUPT_MESSAGE),
    (patched(GOOD, 8, ">i", 2**31 - 1), ErrorCode.CORRUPT_MESSAGE),
    (patched(GOOD, 16, ">b", 1), ErrorCode.INVALID_RECORD),
    (patched(GOOD, 16, ">b", 3), ErrorCode.INVALID_RECORD),
    (patched(GOOD, 17, ">I", 0, crc=False), ErrorCode.CORRUPT_MESSAGE),
    (patched(GOOD, len(GOOD) - 1, ">B", 255, crc=False), ErrorCode.CORRUPT_MESSAGE),
    (patched(GOOD, 21, ">h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (patched(GOOD, 21, ">h", 0x20), ErrorCode.INVALID_RECORD),
    (patched(GOOD, 21, ">h", 0x08), ErrorCode.INVALID_RECORD),
    (patched(GOOD, 23, ">i", 3), ErrorCode.INVALID_RECORD),
    (patched(GOOD, 57, ">i", 0), ErrorCode.INVALID_RECORD),
    (patched(GOOD, 57, ">i", -1), ErrorCode.INVALID_RECORD),
    (patched(patched(GOOD, 57, ">i", 1000), 23, ">i", 999), ErrorCode.INVALID_RECORD),
    (batch(3, producer=(5, 0, -1)), ErrorCode.INVALID_RECORD),
    (GOOD + batch(3, producer=(5, 0, 0)), ErrorCode.INVALID_RECORD),
    (batch(3, producer=(5, 0, 0)) + GOOD, ErrorCode.INVALID_RECORD),
    (batch(3, producer=(5, 0, 0)) + batch(3, producer=(6, 0, 3)), ErrorCode.INVALID_RECORD),
    (batch(3, producer=(5, 0, 0)) + batch(3, producer=(5, 1, 3)), ErrorCode.INVALID_RECORD),
    (batch(3, producer=(5, 0, 0)) + batch(3, producer=(5, 0, 4)), ErrorCode.INVALID_RECORD),
    (
        batch(3, producer=(5, 0, 0)) + batch(3, producer=(5, 0, 3), transactional=True),
        ErrorCode.INVALID_RECORD,
    ),
]


@each("data, code", REFUSED)
def test_invalid_batch_is_rejected(data: bytes, code: ErrorCode) -> None:
    assert code_of(lambda: parse_headers(data, LIMIT)) is code


def test_invalid_batch_rejects_the_whole_request() -> None:
    spoilt = GOOD + patched(GOOD, 17, ">I", 0, crc=False)
    assert code_of(lambda: parse_headers(spoilt, LIMIT)) is ErrorCode.CORRUPT_MESSAGE


def test_size_limit_is_per_batch_and_inclusive() -> None:
    size = len(GOOD)
    assert len(parse_headers(GOOD + GOOD, size)) == 2
    assert code_of(lambda: parse_headers(GOOD, size - 1)) is ErrorCode.MESSAGE_TOO_LARGE


def test_record_count_of_compressed_batch_is_not_checked() -> None:
    data = patched(patched(batch(3, codec=1), 57, ">i", 1000), 23, ">i", 999)
    assert parse_headers(data, LIMIT)[0].record_count == 1000


@pytest.mark.parametrize(
    ("kept", "start", "found"),
    [
        ([(0, 4), (5, 9)], 0, []),
        ([(2, 4), (7, 9)], 0, [(0, 1), (5, 6)]),
        ([(0, 4)], 0, [(5, 9)]),
        ([(2, 5)], 4, [(6, 9)]),
        ([], 0, [(0, 9)]),
        ([], 10, []),
    ],
)
def test_gaps_are_offsets_in_no_batch(
    kept: list[tuple[int, int]], start: int, found: list[tuple[int, int]]
) -> None:
    batches = [StoredBatch(first, last, b"", 0) for first, last in kept]
    assert list(gaps(batches, start, 10)) == found
