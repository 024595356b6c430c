"""A stream of bytes as frames."""

from __future__ import annotations

import tracemalloc

import pytest

from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frame_splitter import FrameSplitter


def framed(*frames: bytes) -> bytes:
    """Frames with their lengths."""
    return b"".join(len(frame).to_bytes(4) + frame for frame in frames)


def test_frames_round_trip() -> None:
    cutter, frames = FrameSplitter(100), list[bytes]()
    cutter.split(framed(b"one", b"two") + b"\0\0", frames)
    assert (frames, cutter.begun, cutter.size) == ([b"one", b"two"], True, 0)
    cutter.split(b"\0\x05th", frames)
    assert (frames, cutter.begun, cutter.size) == ([b"one", b"two"], True, 5)
    cutter.split(b"ree", frames)
    assert (frames, cutter.begun, cutter.size) == ([b"one", b"two", b"three"], False, 0)
    cutter.split(b"", frames)
    assert (len(frames), cutter.begun) == (3, False)


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (b"\0\0\0\x65", "A request of 101 bytes; 1 to 100 are allowed"),
        (b"\0\0\0\0", "A request of 0 bytes"),
        (b"\xff\xff\xff\xff", "A request of -1 bytes"),
        (b"\x80\0\0\0", "A request of -2147483648 bytes"),
        (b"GET ", "speaks HTTP;"),
        (b"PRI ", "speaks HTTP/2"),
        (b"\x16\x03\x01\x02", "speaks TLS"),
    ],
)
def test_invalid_lengths_are_rejected(length: bytes, reason: str) -> None:
    frames: list[bytes] = []
    with pytest.raises(BadMessage, match=reason):
        FrameSplitter(100).split(framed(b"before") + length + b"after", frames)
    assert frames == [b"before"]


def test_the_largest_frame_is_accepted() -> None:
    frames: list[bytes] = []
    FrameSplitter(100).split(framed(bytes(100)), frames)
    assert frames == [bytes(100)]


def test_a_frame_byte_by_byte_costs_little_more_than_its_bytes() -> None:
    size = 50_000
    cutter, frames = FrameSplitter(size), list[bytes]()
    data = framed(bytes(range(250)) * (size // 250))
    tracemalloc.start()
    try:
        for at in range(len(data) - 1):
            cutter.split(data[at : at + 1], frames)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * size
    cutter.split(data[-1:], frames)
    assert frames == [data[4:]]
