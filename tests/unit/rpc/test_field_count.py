"""The count of the fields of an encoded message."""

from __future__ import annotations

from typing import Any, Final, cast

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.gateway.v1 import produce_pb2, share_pb2
from sharebroker_server.rpc.field_count import Malformed, TooManyFields, count_fields
from tests.testkit.tables import each

NUMBERS: Final = FieldDescriptor.TYPE_ENUM, FieldDescriptor.TYPE_INT32


def accepted(data: bytes, message: type[Message], limit: int) -> bool:
    """Returns whether a message has at most `limit` fields."""
    try:
        for _ in count_fields(data, cast("Descriptor", message.DESCRIPTOR), limit):
            pass
    except TooManyFields:
        return False
    return True


def naive_count(message: Message) -> int:
    """Counts the fields of a decoded message."""
    count = 0
    for field, value in message.ListFields():
        if field.is_repeated and field.type in NUMBERS:
            count += 1 + sum(len(number) for number in map(_encoded, value)) // 16
            continue
        values: Any = value if field.is_repeated else [value]
        for item in values:
            count += 1 + (naive_count(item) if isinstance(item, Message) else 0)
    return count


def _encoded(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(encoded) + bytes((number,))


publish_requests = st.builds(
    produce_pb2.PublishRequest,
    topic=st.text(max_size=200),
    records=st.lists(
        st.builds(
            produce_pb2.PublishRecord,
            key=st.binary(max_size=300),
            text=st.text(max_size=3),
            timestamp_ms=st.integers(-(2**63), 2**63 - 1),
            headers=st.lists(st.builds(share_pb2.RecordHeader, key=st.text(max_size=3)), max_size=3),
        ),
        max_size=5,
    ),
)
fetch_requests = st.builds(
    share_pb2.ShareFetchRequest,
    topics=st.lists(
        st.builds(
            share_pb2.ShareFetchRequest.FetchTopic,
            partitions=st.lists(
                st.builds(
                    share_pb2.ShareFetchRequest.FetchPartition,
                    acknowledgement_batches=st.lists(
                        st.builds(
                            share_pb2.AcknowledgementBatch,
                            acknowledge_types=st.lists(st.integers(0, 2**31 - 1), max_size=40),
                        ),
                        max_size=3,
                    ),
                ),
                max_size=3,
            ),
        ),
        max_size=3,
    ),
)


@given(st.one_of(publish_requests, fetch_requests))
def test_count_agrees_with_the_decoded_message(message: Message) -> None:
    count, data = naive_count(message), message.SerializeToString()
    assert accepted(data, type(message), count)
    if count:
        assert not accepted(data, type(message), count - 1)


@given(st.binary(max_size=60))
def test_any_bytes_are_counted_or_malformed(data: bytes) -> None:
    try:
        assert accepted(data, produce_pb2.PublishRequest, 1_000)
    except Malformed:
        return


@each(
    "data",
    [
        b"\x0a",  # a string without its length
        b"\x0a\x05abc",  # a string longer than the message
        b"\x12\x02\x0a\x05",  # a nested string longer than the message
        b"\x12\x02\x0a\x01xx",  # a nested string longer than its parent
        b"\x12\x05\x0a",  # a nested message longer than the message
        b"\x09\x00",  # eight bytes of which seven are missing
        b"\x0d\x00",  # four bytes of which three are missing
        b"\x13\x14",  # a group
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a number of eleven bytes
        b"\x80",  # an incomplete tag
    ],
)
def test_malformed_bytes_are_detected(data: bytes) -> None:
    with pytest.raises(Malformed):
        accepted(data, produce_pb2.PublishRequest, 10)


def test_numbers_of_all_widths_are_skipped() -> None:
    data = b"\x08\x96\x01" + b"\x09" + bytes(8) + b"\x0d" + bytes(4) + b"\x82\x01\x01x"  # the last: field 16
    assert accepted(data, produce_pb2.PublishRequest, 4)
    assert not accepted(data, produce_pb2.PublishRequest, 3)


def test_count_is_divided_into_portions() -> None:
    data = b"\x12\0" * 10_000
    assert sum(1 for _ in count_fields(data, produce_pb2.PublishRequest.DESCRIPTOR, 20_000)) == 5


def test_count_ends_soon_after_the_limit() -> None:
    portions = count_fields(b"\x12\0" * 1_000_000, produce_pb2.PublishRequest.DESCRIPTOR, 5_000)
    assert [next(portions), next(portions)] == [None, None]
    with pytest.raises(TooManyFields):
        next(portions)
