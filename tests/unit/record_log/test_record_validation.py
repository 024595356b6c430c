"""Validation of a producer's batch: every compression, and corrupt fields."""

from __future__ import annotations

import gzip
import struct

import cramjam
import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.topic import resolve_topic
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, header_of, seal
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.record_log.record_validation import (
    MAX_BATCHES,
    MAX_HEADERS,
    MAX_RECORDS,
    MAX_UNPACKED_BYTES,
    SLICE_RECORDS,
    LogSettings,
    TimestampBounds,
    batches_of,
    check_counts,
    check_records,
    validation_groups,
)
from tests.hostile.payloads import one_record
from tests.unit.record_log.batches import batch

NOW = 1_000_000
BOUNDS = TimestampBounds(before_max_ms=100, after_max_ms=10)


@pytest.mark.parametrize("timestamp", [NOW - 100, NOW, NOW + 10, -1])
def test_timestamp_within_bounds_is_accepted(timestamp: int) -> None:
    BOUNDS.check([header_of(batch(1, time=timestamp))], NOW)


@pytest.mark.parametrize("timestamp", [NOW - 101, NOW + 11])
def test_timestamp_out_of_bounds_is_rejected(timestamp: int) -> None:
    with pytest.raises(KafkaError) as caught:
        BOUNDS.check([header_of(batch(1, time=timestamp))], NOW)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


def test_a_topic_without_settings_has_the_defaults_of_the_log() -> None:
    assert LogSettings.of_topic(resolve_topic({}, BrokerConfig())) == LogSettings()


def test_topic_configs_apply_to_its_log() -> None:
    topic = resolve_topic(
        {
            "max.message.bytes": "2000",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "7000",
            "message.timestamp.after.max.ms": "6000",
            "retention.ms": "1000",
            "retention.bytes": "5000",
            "retention.policy": "consumed",
        },
        BrokerConfig(),
    )
    assert LogSettings.of_topic(topic) == LogSettings(
        max_message_bytes=2000,
        log_append_time=True,
        timestamp_bounds=TimestampBounds(7000, 6000),
        retention=Retention(1000, 5000, consumed=True),
    )


CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def refusal(data: bytes) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        check_records(header_of(data), data)
    return refused.value.code


def packed(codec: int, plain: bytes, like: bytes) -> bytes:
    """The header of a batch with other contents."""
    header: BatchHeader = header_of(like)
    return seal(header._replace(attributes=codec), plain)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("count", [1, 3, 200])
def test_records_of_clients_are_accepted(codec: int, count: int) -> None:
    data = batch(count, 1000, codec=codec)
    check_records(header_of(data), data)
    check_records(header_of(data), memoryview(data))


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_unreadable_records_are_rejected(codec: int) -> None:
    good = batch(3, 30, codec=codec)
    assert refusal(packed(codec, b"\xff" * 20, good)) is ErrorCode.INVALID_RECORD
    assert refusal(packed(codec, b"", good)) is ErrorCode.INVALID_RECORD
    assert refusal(packed(codec, good[HEADER_SIZE:-3], good)) is ErrorCode.INVALID_RECORD


def test_records_that_differ_from_the_header_are_rejected() -> None:
    good = batch(3)
    fewer = header_of(good)._replace(record_count=2, last_offset_delta=1)
    more = header_of(good)._replace(record_count=4, last_offset_delta=3)
    for header in (fewer, more):
        assert refusal(seal(header, good[HEADER_SIZE:])) is ErrorCode.INVALID_RECORD
    again = batch(1)[HEADER_SIZE:]
    twice = header_of(good)._replace(record_count=2, last_offset_delta=1)
    assert refusal(seal(twice, again + again)) is ErrorCode.INVALID_RECORD


def test_non_text_header_name_is_rejected() -> None:
    record = b"\x00\x00\x00\x01\x01\x02\x02\xff\x01"
    data = seal(header_of(batch(1)), bytes([2 * len(record)]) + record)
    assert refusal(data) is ErrorCode.INVALID_RECORD


def snappy(*blocks: bytes) -> bytes:
    """Frames the data as Java's library does."""
    framed = (struct.pack(">I", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(framed)


def test_snappy_is_read_with_and_without_block_framing() -> None:
    plain = batch(3)
    records = plain[HEADER_SIZE:]
    one, two = (bytes(cramjam.snappy.compress_raw(part)) for part in (records[:20], records[20:]))
    for content in (bytes(cramjam.snappy.compress_raw(records)), snappy(one, two)):
        data = packed(2, content, plain)
        check_records(header_of(data), data)
    for content in (snappy(one, two)[:-1], snappy(one) + b"\xff\xff\xff\xf0", snappy(one)):
        assert refusal(packed(2, content, plain)) is ErrorCode.INVALID_RECORD


def test_batch_that_unpacks_too_large_is_rejected() -> None:
    bomb = bytes(MAX_UNPACKED_BYTES + 1)
    half = bytes(cramjam.snappy.compress_raw(bomb[: MAX_UNPACKED_BYTES // 2 + 1]))
    contents = {
        1: [gzip.compress(bomb)],
        2: [bytes(cramjam.snappy.compress_raw(bomb)), snappy(half, half)],
        3: [bytes(cramjam.lz4.compress(bomb))],
        4: [bytes(cramjam.zstd.compress(bomb))],
    }
    for codec, some in contents.items():
        for content in some:
            assert refusal(packed(codec, content, batch())) is ErrorCode.MESSAGE_TOO_LARGE


def test_batch_record_count_is_limited() -> None:
    good = batch()
    header = header_of(good)._replace(
        attributes=4, record_count=MAX_RECORDS + 1, last_offset_delta=MAX_RECORDS
    )
    with pytest.raises(KafkaError, match="more than 250000 records"):
        LogSettings().headers(seal(header, good[HEADER_SIZE:]), NOW)


def test_batch_too_small_for_its_record_count_is_rejected() -> None:
    good = batch()
    header = header_of(good)._replace(attributes=4, record_count=100, last_offset_delta=99)
    assert refusal(seal(header, bytes(cramjam.zstd.compress(good[HEADER_SIZE:])))) is ErrorCode.INVALID_RECORD


def test_records_and_batches_of_one_append_are_limited() -> None:
    many = [header_of(batch(1))] * MAX_BATCHES
    check_counts(many)
    check_counts([header_of(batch(1))._replace(record_count=MAX_RECORDS)])
    for headers in ([*many, many[0]], [many[0]._replace(record_count=MAX_RECORDS), many[0]]):
        with pytest.raises(KafkaError) as refused:
            check_counts(headers)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_headers_of_a_large_record_are_limited() -> None:
    check_records(header_of(one_record(MAX_HEADERS)), one_record(MAX_HEADERS))
    assert refusal(one_record(MAX_HEADERS * 6)) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_records_that_shrink_a_thousandfold_are_read(codec: int) -> None:
    data = batch(3, 1 << 20, codec=codec)
    check_records(header_of(data), data)


def test_each_batch_of_a_request_is_read() -> None:
    good = batch()
    bad = packed(0, b"\xff" * 30, good)
    settings = LogSettings()
    assert len(settings.headers(good + good, 2000)) == 2
    with pytest.raises(KafkaError, match="unreadable records"):
        settings.headers(good + bad, 2000)


@pytest.mark.parametrize(
    ("batches", "sizes"),
    [
        ([], []),
        ([batch(1)], [1]),
        ([batch(SLICE_RECORDS // 4)] * 7, [3, 3, 1]),
        ([batch(SLICE_RECORDS + 1), batch(1), batch(1), batch(SLICE_RECORDS + 1)], [1, 2, 1]),
        ([batch(1), batch(1, codec=1), batch(1, codec=1), batch(1), batch(1)], [1, 1, 1, 2]),
        ([batch(1, size=600_000)] * 3, [1, 1, 1]),
        ([batch(1)] * SLICE_RECORDS, [190] * 21 + [10]),
    ],
    ids=["none", "one", "small", "large", "compressed", "bytes", "tiny"],
)
def test_batches_are_grouped_up_to_a_slice(batches: list[bytes], sizes: list[int]) -> None:
    data = b"".join(batches)
    headers = [header_of(one) for one in batches]
    groups = list(validation_groups(data, headers))
    assert [len(group) for group in groups] == sizes
    assert [pair for group in groups for pair in group] == list(batches_of(data, headers))
