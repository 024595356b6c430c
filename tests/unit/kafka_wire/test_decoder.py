"""Bytes to messages: plain and compact forms, and every kind of invalid bytes."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from sharebroker_server.kafka_wire.decoder import (
    MAX_ENTRIES,
    BadMessage,
    EntryBudget,
    read_message,
    skip_tags,
    uvarint,
)
from sharebroker_server.kafka_wire.frames import codec_of
from tests.testkit.tables import each

METADATA, API_VERSIONS, DESCRIBE_TOPIC_PARTITIONS, FETCH, DESCRIBE_LOG_DIRS = 3, 18, 75, 1, 35


def read(key: int, version: int, data: bytes) -> Any:
    """A request."""
    return read_message(codec_of(key, version).read_request, data, 0)


def decoded(key: int, version: int, data: bytes) -> Any:
    """A response."""
    return read_message(codec_of(key, version).read_response, data, 0)


def compact(text: str | bytes) -> bytes:
    """A short compact string."""
    raw = text.encode() if isinstance(text, str) else text
    return bytes([len(raw) + 1]) + raw


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x80\x01", 128),
        (b"\xff\x7f", 16_383),
        (b"\xff\xff\xff\xff\x0f", (1 << 32) - 1),
        (b"\x80\x00", 0),
        (b"\xff\xff\xff\xff\x7f", (1 << 35) - 1),
    ],
)
def test_uvarint_is_decoded(data: bytes, value: int) -> None:
    assert uvarint(b"?" + data + b"!", 1) == (value, 1 + len(data))


def test_a_uvarint_has_at_most_five_bytes() -> None:
    with pytest.raises(BadMessage, match="five bytes"):
        uvarint(b"\x80\x80\x80\x80\x80\x01", 0)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_unterminated_uvarint_is_rejected(data: bytes) -> None:
    with pytest.raises(IndexError):
        uvarint(data, 0)


@pytest.mark.parametrize(
    ("data", "end"), [(b"\0", 1), (b"\x01\x05\x02ab", 5), (b"\x02\x05\0\x99\x01\x01x!", 7)]
)
def test_unknown_tags_are_skipped(data: bytes, end: int) -> None:
    assert skip_tags(data, 0) == end


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x01\x05\x03ab", "A length of 3 with 2 bytes remaining"),
        (b"\x01\x05\xff\xff\xff\xff\x0fab", "A length of 4294967295 with 2 bytes remaining"),
        (b"\xff\xff\xff\xff\x0f", f"More than {MAX_ENTRIES} entries"),
    ],
)
def test_invalid_tags_are_rejected(data: bytes, reason: str) -> None:
    with pytest.raises(BadMessage, match=reason):
        skip_tags(data, 0)


def test_plain_strings_and_arrays_are_decoded() -> None:
    request = read(METADATA, 1, b"\0\0\0\2\0\1a\0\2\xc3\xa9")
    assert [topic.name for topic in request.topics] == ["a", "é"]


def test_compact_strings_and_arrays_are_decoded() -> None:
    request = read(
        METADATA, 9, b"\x03" + compact("a") + b"\0" + compact("x" * 120) + b"\0" + b"\1\0\1" + b"\0"
    )
    assert [topic.name for topic in request.topics] == ["a", "x" * 120]
    assert (request.allow_auto_topic_creation, request.include_cluster_authorized_operations) == (True, False)


def test_a_long_compact_string_has_a_longer_length() -> None:
    name = b"n" * 300
    request = read(METADATA, 9, b"\x02" + b"\xad\x02" + name + b"\0" + b"\0\0\0" + b"\0")
    assert request.topics[0].name == "n" * 300


@pytest.mark.parametrize(
    ("version", "data"), [(1, b"\xff\xff\xff\xff"), (9, b"\0\1\0\0\0"), (12, b"\0\1\0\0")]
)
def test_a_null_array_is_none(version: int, data: bytes) -> None:
    assert read(METADATA, version, data).topics is None


def test_a_null_string_is_none() -> None:
    zeros = bytes(16)
    request = read(METADATA, 12, b"\x02" + zeros + b"\0" + b"\0" + b"\1\0" + b"\0")
    assert request.topics[0].name is None
    assert request.topics[0].topic_id == ""


def test_ids_are_text() -> None:
    raw = bytes(range(16))
    request = read(METADATA, 12, b"\x02" + raw + compact("a") + b"\0" + b"\1\0" + b"\0")
    assert request.topics[0].topic_id == "AAECAwQFBgcICQoLDA0ODw"


def test_bytes_after_a_message_are_ignored() -> None:
    assert read(METADATA, 0, b"\0\0\0\0more").topics == []


def test_nullable_struct_is_decoded() -> None:
    rest = b"\0\0\0\x0a"  # the largest number of partitions in a response
    assert read(DESCRIBE_TOPIC_PARTITIONS, 0, b"\1" + rest + b"\xff" + b"\0").cursor is None
    cursor = b"\1" + compact("topic") + b"\0\0\0\7" + b"\0"
    request = read(DESCRIBE_TOPIC_PARTITIONS, 0, b"\1" + rest + cursor + b"\0")
    assert (request.cursor.topic_name, request.cursor.partition_index) == ("topic", 7)


def test_known_tagged_fields_are_read_and_unknown_ones_skipped() -> None:
    plain = b"\0\0" + b"\1" + b"\0\0\0\0"  # no error, no APIs, not throttled
    epoch = b"\1\x08" + struct.pack(">q", 42)
    unknown = b"\x63\2xy"
    response = decoded(API_VERSIONS, 3, plain + b"\2" + epoch + unknown)
    assert response.finalized_features_epoch == 42
    assert response.supported_features == ()
    assert not response.zk_migration_ready


def test_a_tagged_field_has_its_declared_length() -> None:
    plain = b"\0\0" + b"\1" + b"\0\0\0\0"
    with pytest.raises(BadMessage, match="finalized_features_epoch has another length than it declares"):
        decoded(API_VERSIONS, 3, plain + b"\1" + b"\1\x09" + bytes(9))


@each(
    "version, data, reason",
    [
        (1, b"", "too early"),
        (1, b"\0\0\0", "too early"),
        (1, b"\0\0\0\1\0", "too early"),
        (1, b"\0\0\0\1\0\5name", "A length of 5 with 4 bytes remaining"),
        (1, b"\0\0\0\1\xff\xff", "A length of -1"),
        (1, b"\0\0\0\1\x80\0", "A length of -32768"),
        (1, b"\xff\xff\xff\xfe", "A length of -2"),
        (0, b"\xff\xff\xff\xff", "A length of -1"),
        (1, b"\x7f\xff\xff\xff" + bytes(99), "A length of 2147483647 with 99 bytes remaining"),
        (1, b"\0\0\0\1\0\2\xff\xfe", "not UTF-8"),
        (9, b"", "too early"),
        (9, b"\x02\x05nam", "A length of 4 with 3 bytes remaining"),
        (9, b"\x02\x00\0", "A length of -1"),
        (9, b"\xff\xff\xff\xff\xff\x01", "five bytes"),
        (9, b"\xff\xff\xff\xff\x0f" + bytes(99), "A length of 4294967294 with 99 bytes remaining"),
        (9, b"\x02\x03\xc3\x28\0", "not UTF-8"),
        (9, b"\x01\0\0\0", "too early"),
        (9, b"\x01\0\0\0\1", "too early"),
        (9, b"\x01\0\0\0\1\1\1", "A length of 1 with 0 bytes remaining"),
        (12, b"\x02" + bytes(9), "too early"),
    ],
)
def test_invalid_bytes_are_rejected(version: int, data: bytes, reason: str) -> None:
    with pytest.raises(BadMessage, match=reason):
        read(METADATA, version, data)


def test_arrays_of_numbers_are_decoded() -> None:
    topic = b"\0\1t" + b"\0\0\0\3" + struct.pack(">3i", 1, -1, 7)
    head = struct.pack(">iiii", -1, 500, 1, 1) + b"\0" + struct.pack(">ii", 0, -1)
    request = read(FETCH, 7, head + b"\0\0\0\0" + b"\0\0\0\1" + topic)
    assert request.forgotten_topics_data[0].partitions == [1, -1, 7]
    with pytest.raises(BadMessage, match="too early"):
        read(FETCH, 7, head + b"\0\0\0\0" + b"\0\0\0\1" + topic[:-1])


def test_entries_of_an_array_are_bounded() -> None:
    names = b"\0\0" * MAX_ENTRIES
    assert len(read(METADATA, 1, struct.pack(">i", MAX_ENTRIES) + names).topics) == MAX_ENTRIES
    with pytest.raises(BadMessage, match=f"More than {MAX_ENTRIES} entries"):
        read(METADATA, 1, struct.pack(">i", MAX_ENTRIES + 1) + names + b"\0\0")


def test_entries_of_all_arrays_together_are_bounded() -> None:
    """Sixteen numbers count as one."""
    each = 1 + 1600 // 16
    topic = b"\0\0" + struct.pack(">i", 1600) + bytes(4 * 1600)
    head = struct.pack(">iiii", -1, 500, 1, 1) + b"\0" + struct.pack(">ii", 0, -1) + bytes(4)
    most = MAX_ENTRIES // each
    room = EntryBudget()
    codec_of(FETCH, 7).read_request(head + struct.pack(">i", most) + topic * most, 0, room)
    assert room.remaining == MAX_ENTRIES - most * each
    with pytest.raises(BadMessage, match="More than"):
        read(FETCH, 7, head + struct.pack(">i", most + 1) + topic * (most + 1))


def test_null_arrays_do_not_raise_the_entry_budget() -> None:
    topics = 100
    names = b"\0\1t" + b"\xff\xff\xff\xff"  # a topic with a null for its partitions
    room = EntryBudget()
    codec_of(DESCRIBE_LOG_DIRS, 1).read_request(
        struct.pack(">i", topics) + (b"\0\1t" + bytes(4)) * topics, 0, room
    )
    assert room.remaining == MAX_ENTRIES - topics
    with pytest.raises(BadMessage, match="A length of -1"):
        read(DESCRIBE_LOG_DIRS, 1, struct.pack(">i", 1) + names)
