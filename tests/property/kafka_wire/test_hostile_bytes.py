"""Arbitrary bytes: the result is a message or BadMessage, and memory stays proportional to the message.

`make fuzz` runs these for long.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sharebroker_server.kafka_wire.decoder import MAX_ENTRIES, BadMessage, Reader, read_message
from sharebroker_server.kafka_wire.frames import codec_of, read_header, read_request, request_in_portions
from sharebroker_server.kafka_wire.generate import APIS
from sharebroker_server.kafka_wire.schema import Message
from tests.support.kafka_frames import result_of
from tests.support.kafka_messages import VERSIONS, requests, responses

LENGTHS = [
    value.to_bytes(size, signed=True)
    for size in (2, 4)
    for value in (-1, -2, 0, 1, 1 << (8 * size - 1) - 1, -1 << (8 * size - 1), (1 << (8 * size - 1)) - 1)
] + [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\xff\xff\xff\xff\xff\x01", b"\x00", b"\x7f"]
"""False lengths, in plain and compact encoding."""


def take(reader: Reader, data: bytes) -> None:
    """Fails for any exception but BadMessage."""
    with suppress(BadMessage):
        read_message(reader, data, 0)


@given(version=st.sampled_from(VERSIONS), data=st.data())
def test_truncated_message_is_rejected(version: tuple[int, int], data: st.DataObject) -> None:
    reader, written = data.draw(_written(version))
    for end in range(len(written)):
        take(reader, written[:end])


@given(version=st.sampled_from(VERSIONS), data=st.data())
def test_message_with_false_lengths_is_rejected_or_read(
    version: tuple[int, int], data: st.DataObject
) -> None:
    reader, written = data.draw(_written(version))
    lie = data.draw(st.sampled_from(LENGTHS) | st.binary(min_size=1, max_size=5))
    for at in range(len(written)):
        take(reader, written[:at] + lie + written[at + len(lie) :])


@given(data=st.binary(max_size=2000), version=st.sampled_from(VERSIONS), answer=st.booleans())
def test_garbage_is_rejected_or_read(data: bytes, version: tuple[int, int], answer: bool) -> None:
    how = codec_of(*version)
    take(how.read_response if answer else how.read_request, data)


@given(data=st.binary(max_size=200))
@example(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n")
@example(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
def test_garbage_frame_is_rejected_or_read(data: bytes) -> None:
    for key in APIS:
        frame = key.to_bytes(2) + data
        with suppress(BadMessage, KeyError):
            header = read_header(frame)
            codec = codec_of(header.api_key, header.version)
            whole: Message | None = None
            with suppress(BadMessage):
                whole = read_request(frame, header, codec)
            assert result_of(request_in_portions(frame, header, codec)) == whole


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100, MAX_ENTRIES])
def test_memory_is_bounded_by_entries_not_by_stated_length(size: int) -> None:
    """Topics of two bytes each cost the most memory per byte."""
    names = size.to_bytes(4) + b"\0\0" * MAX_ENTRIES * 2
    reader = codec_of(3, 1).read_request
    read_message(reader, b"\0\0\0\0", 0)
    tracemalloc.start()
    try:
        message: Any = read_message(reader, names, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(message.topics) == size
    assert peak < 4096 + 300 * size


def _written(version: tuple[int, int]) -> st.SearchStrategy[tuple[Reader, bytes]]:
    how = codec_of(*version)
    asked = requests(*version).map(lambda message: (how.read_request, _bytes(how.write_request, message)))
    answered = responses(*version).map(
        lambda message: (how.read_response, _bytes(how.write_response, message))
    )
    return asked | answered


def _bytes(write: Callable[[bytearray, Message], None], message: Message) -> bytes:
    out = bytearray()
    write(out, message)
    return bytes(out)
