"""A stream of bytes as frames."""

from __future__ import annotations

import tracemalloc

import pytest

from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frame_splitter import Cutter


def framed(*frames: bytes) -> bytes:
    """Frames with their lengths."""
    return b"".join(len(frame).to_bytes(4) + frame for frame in frames)


def test_frames_come_out_as_they_went_in() -> None:
    cutter, frames = Cutter(100), list[bytes]()
    cutter.cut(framed(b"one", b"two") + b"\0\0", frames)
    assert (frames, cutter.begun, cutter.size) == ([b"one", b"two"], True, 0)
    cutter.cut(b"\0\x05th", frames)
    assert (frames, cutter.begun, cutter.size) == ([b"one", b"two"], True, 5)
    cutter.cut(b"ree", frames)
    assert (frames, cutter.begun, cutter.size) == ([b"one", b"two", b"three"], False, 0)
    cutter.cut(b"", frames)
    assert (len(frames), cutter.begun) == (3, False)


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (b"\0\0\0\x65", "A request of 101 bytes; 1 to 100 are taken"),
        (b"\0\0\0\0", "A request of 0 bytes"),
        (b"\xff\xff\xff\xff", "A request of -1 bytes"),
        (b"\x80\0\0\0", "A request of -2147483648 bytes"),
        (b"GET ", "speaks HTTP;"),
        (b"PRI ", "speaks HTTP/2"),
        (b"\x16\x03\x01\x02", "speaks TLS"),
    ],
)
def test_lengths_that_cannot_be(length: bytes, reason: str) -> None:
    frames: list[bytes] = []
    with pytest.raises(BadMessage, match=reason):
        Cutter(100).cut(framed(b"before") + length + b"after", frames)
    assert frames == [b"before"]


def test_the_largest_frame_is_taken() -> None:
    frames: list[bytes] = []
    Cutter(100).cut(framed(bytes(100)), frames)
    assert frames == [bytes(100)]


def test_a_frame_byte_by_byte_costs_little_more_than_its_bytes() -> None:
    size = 50_000
    cutter, frames = Cutter(size), list[bytes]()
    data = framed(bytes(range(250)) * (size // 250))
    tracemalloc.start()
    try:
        for at in range(len(data) - 1):
            cutter.cut(data[at : at + 1], frames)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * size
    cutter.cut(data[-1:], frames)
    assert frames == [data[4:]]
