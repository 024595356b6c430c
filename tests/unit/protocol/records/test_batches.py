"""Compression in the framings that Kafka's clients read."""

from __future__ import annotations

import random
import struct

import cramjam
import pytest
from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.batches import (
    CODECS,
    BatchBuilder,
    Decoded,
    Header,
    decode,
    lz4,
    snappy,
    stored_records,
    with_producer,
)
from sharebroker_protocol.records.record import AcknowledgeType
from tests.testkit.tables import each
from tests.unit.client.batches import acquisition, batch, control_batch, sealed

RANDOM = random.Random(7)
READERS = {
    "none": bytes,
    "gzip": gzip_decode,
    "snappy": snappy_decode,
    "lz4": lz4_decode,
    "zstd": zstd_decode,
}
CONTENTS = {
    "short": b"a",
    "repeated": b"ab" * 100_000,
    "random": RANDOM.randbytes(200_000),
    "one block": RANDOM.randbytes(65_536),
}


@each("content", CONTENTS)
@each("codec", CODECS)
def test_an_independent_reader_returns_the_content(codec: str, content: str) -> None:
    data = CONTENTS[content]
    assert bytes(READERS[codec](CODECS[codec].compress(data))) == data


def test_codec_numbers_equal_the_batch_attributes() -> None:
    assert [(name, codec.number) for name, codec in CODECS.items()] == [
        ("none", 0),
        ("gzip", 1),
        ("snappy", 2),
        ("lz4", 3),
        ("zstd", 4),
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_repeated_content_is_compressed(codec: str) -> None:
    assert len(CODECS[codec].compress(CONTENTS["repeated"])) < 20_000


def test_snappy_has_the_header_of_xerial_and_blocks_of_32_kib() -> None:
    framed = snappy(bytes(33_000))
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    size = int.from_bytes(framed[16:20], "big")
    assert len(bytes(cramjam.snappy.decompress_raw(framed[20 : 20 + size]))) == 32_768


def test_lz4_blocks_are_independent_and_stored_when_they_do_not_shrink() -> None:
    frame = lz4(RANDOM.randbytes(100_000))
    assert frame[:4] == bytes.fromhex("04224d18")
    assert frame[4] & 0x20, "Kafka's reader refuses linked blocks"
    assert int.from_bytes(frame[7:11], "little") == 65_536 | 0x8000_0000


SEEDED = random.Random(932)
PAYLOADS = {
    "text": [b'{"flight":"UA%d","delay":null}' % n for n in range(3000)],
    "noise": [SEEDED.randbytes(200) for _ in range(1000)],
}


@each("payload", PAYLOADS)
@each("compression", CODECS)
def test_round_trip(compression: str, payload: str) -> None:
    builder = BatchBuilder(CODECS[compression], 1 << 20)
    headers: list[Header] = [("trace", b"1"), ("trace", None)]
    for n, value in enumerate(PAYLOADS[payload]):
        assert builder.append(1_700_000_000_000 + n, b"k%d" % n, value, headers)
    assert builder.count == len(PAYLOADS[payload])
    batch = DefaultRecordBatch(builder.build())
    assert batch.magic == 2
    assert batch.validate_crc()
    assert (batch.compression_type, batch.base_offset) == (CODECS[compression].number, 0)
    records = list(batch)
    assert [record.value for record in records] == PAYLOADS[payload]
    assert records[7].timestamp == 1_700_000_000_007
    assert (records[7].key, records[7].headers) == (b"k7", headers)


@each("compression", CODECS)
def test_numbered_batch_equals_that_of_an_independent_encoder(compression: str) -> None:
    builder = BatchBuilder(CODECS[compression], 1000)
    expected = DefaultRecordBatchBuilder(2, 0, 0, 77, 3, 2**31 - 1, 1000)
    for number in range(3):
        builder.append(number, b"k", b"v")
        expected.append(number, number, b"k", b"v", [])
    plain = builder.build()
    batch = DefaultRecordBatch(with_producer(plain, 77, 3, 2**31 - 1))
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 2**31 - 1)
    assert [record.value for record in batch] == [b"v"] * 3
    if compression == "none":
        assert with_producer(plain, 77, 3, 2**31 - 1) == bytes(expected.build())


@each("compression", CODECS)
def test_batch_built_for_a_producer_equals_one_numbered_later(compression: str) -> None:
    built, numbered = (BatchBuilder(CODECS[compression], 1000) for _ in range(2))
    for builder in (built, numbered):
        builder.append(5, b"k", b"v")
    assert built.build((77, 3, 9)) == with_producer(numbered.build(), 77, 3, 9)


def test_key_and_value_may_be_absent() -> None:
    builder = BatchBuilder(CODECS["none"], 1000)
    assert builder.append(0, None, None)
    (record,) = DefaultRecordBatch(builder.build())
    assert (record.key, record.value, record.headers) == (None, None, [])


def test_full_batch_rejects_records() -> None:
    builder = BatchBuilder(CODECS["none"], 300)
    added = 0
    while builder.append(0, None, b"x" * 50):
        added += 1
    assert builder.count == added == 4
    assert builder.size <= 300
    assert len(list(DefaultRecordBatch(builder.build()))) == 4


def test_oversized_record_gets_a_batch_of_its_own() -> None:
    builder = BatchBuilder(CODECS["none"], 300)
    assert builder.append(0, None, b"x" * 1000)
    assert not builder.append(0, None, b"y")


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
    acquired_offsets = {offset for a in acquired for offset in range(a.first, a.last + 1)}
    decoded = decode(data, acquired)
    assert offsets(decoded) == sorted(acquired_offsets & present)
    gaps = [offset for span in decoded.unreadable for offset in range(span.first, span.last + 1)]
    assert gaps == sorted(acquired_offsets - present)
    assert all(r.acquisition.first <= r.offset <= r.acquisition.last for r in decoded.records)
    assert all(s.acquisition.first <= s.first <= s.last <= s.acquisition.last for s in decoded.unreadable)


@each("codec", CODECS)
def test_stored_records_of_a_range(codec: str) -> None:
    data = batch(0, [b"a", None, b"c"], compression=codec) + control_batch(3) + batch(4, [b"e", b"f"])
    assert [(one.offset, one.value) for one in stored_records(data, 2, 4)] == [(2, b"c"), (4, b"e")]
    assert [one.offset for one in stored_records(data, 0, 9)] == [0, 2, 4, 5]


@each("damage", ["checksum", "length", "content"])
def test_stored_records_of_damaged_batches_are_an_error(damage: str) -> None:
    data = batch(7, [b"a" * 100], compression="gzip" if damage == "content" else "none")
    if damage == "checksum":
        data = data[:-1] + b"!"
    elif damage == "length":
        data = data[:-1]
    else:
        data = sealed(bytearray(data[:70] + b"!" * (len(data) - 70)), 7)
    with pytest.raises(KafkaError) as failed:
        list(stored_records(data, 0, 9))
    assert failed.value.code is ErrorCode.CORRUPT_MESSAGE
