"""Streams of bytes as frames, headers of requests and responses, and repeated requests."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import (
    CORRELATION,
    MAX_CONTROL_REQUEST,
    MAX_MEMBER_REQUEST,
    RESPONSE_CORRELATION,
    FrameSplitter,
    RequestTemplate,
    codec_of,
    max_request_bytes,
    read_header,
    read_request,
    read_response,
    request_frame,
    request_in_portions,
    response_frame,
    response_in_portions,
)
from sharebroker_server.kafka_wire.layout import PORTION
from sharebroker_server.kafka_wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from tests.support.kafka_frames import result_of
from tests.testkit.tables import each

LIST_OFFSETS, METADATA, API_VERSIONS = 2, 3, 18


@pytest.mark.parametrize("client_id", [None, "", "client-é"])
@pytest.mark.parametrize(("key", "version"), [(METADATA, 1), (METADATA, 9), (API_VERSIONS, 0)])
def test_a_request_round_trips(key: int, version: int, client_id: str | None) -> None:
    request = (
        MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
        if key == METADATA
        else ApiVersionsRequest()
    )
    frame = request_frame(77, client_id, codec_of(key, version), request)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    header = read_header(bytes(frame[4:]))
    assert header[:4] == (key, version, 77, client_id)
    assert read_request(bytes(frame[4:]), header, codec_of(key, version)) == request


@pytest.mark.parametrize("topics", [1, 7_000])
def test_large_messages_are_read_and_written_in_portions(topics: int) -> None:
    each = 7_000 // topics
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=1, timestamp=-1)
    topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part] * each)
    codec, request = codec_of(LIST_OFFSETS, 9), ListOffsetsRequest(topics=[topic] * topics)
    frame = bytes(request_frame(7, None, codec, request)[4:])
    pauses: list[None] = []
    assert result_of(request_in_portions(frame, read_header(frame), codec), pauses) == request
    assert len(pauses) == (topics + 7_000) // PORTION
    result = ListOffsetsResponse.ListOffsetsPartitionResponse(offset=3)
    answer = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[result] * each)
    response = ListOffsetsResponse(topics=[answer] * topics)
    pauses.clear()
    assert result_of(response_in_portions(7, codec, response), pauses) == response_frame(7, codec, response)
    assert len(pauses) == (topics + 7_000) // PORTION


@pytest.mark.parametrize(("end", "reason"), [(b"", "ends too early"), (b"\0\0\0\1\0\1\xff", "not UTF-8")])
def test_invalid_messages_in_portions_are_rejected(end: bytes, reason: str) -> None:
    frame = bytes.fromhex("0003 0001 00000007 ffff") + end
    with pytest.raises(BadMessage, match=reason):
        result_of(request_in_portions(frame, read_header(frame), codec_of(METADATA, 1)))


@pytest.mark.parametrize(("version", "tags"), [(1, b""), (9, b"\0")])
def test_a_response_round_trips(version: int, tags: bytes) -> None:
    response = MetadataResponse(brokers=[], topics=[], controller_id=5)
    frame = response_frame(77, codec_of(METADATA, version), response)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert frame[4 : 8 + len(tags)] == b"\0\0\0\x4d" + tags
    assert read_response(bytes(frame[4:]), codec_of(METADATA, version)) == (77, response)


def test_the_response_header_of_api_versions_has_no_tags() -> None:
    """A client may not know yet whether the server supports its version."""
    response = ApiVersionsResponse(api_keys=[])
    frame = response_frame(1, codec_of(API_VERSIONS, 3), response)
    assert frame == b"\0\0\0\x0c" + b"\0\0\0\1" + b"\0\0" + b"\1" + bytes(4) + b"\0"
    assert read_response(bytes(frame[4:]), codec_of(API_VERSIONS, 3)) == (1, response)


def test_unknown_header_tags_are_skipped() -> None:
    request = MetadataRequest(topics=[])
    frame = bytes(request_frame(1, "c", codec_of(METADATA, 9), request))[4:]
    assert frame[11] == 0
    tagged = frame[:11] + b"\1\5\2ab" + frame[12:]
    assert read_request(tagged, read_header(tagged), codec_of(METADATA, 9)) == request
    answer = b"\0\0\0\1" + b"\1\5\2ab" + bytes(4) + b"\1\0\0\0\0\5\1" + b"\x80\0\0\0" + b"\0"
    _, response = read_response(answer, codec_of(METADATA, 9))
    assert response == MetadataResponse(brokers=[], topics=[], controller_id=5, cluster_id=None)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "A request of 0 bytes"),
        (bytes(9), "A request of 9 bytes"),
        (bytes(8) + b"\0\3ab", "A client id of 3 bytes in a request of 12"),
        (bytes(8) + b"\xff\xfeab", "A client id of -2 bytes"),
        (bytes(8) + b"\0\2\xc3\x28", "not UTF-8"),
    ],
)
def test_invalid_headers_are_rejected(frame: bytes, reason: str) -> None:
    with pytest.raises(BadMessage, match=reason):
        read_header(frame)


@pytest.mark.parametrize("tags", [b"", b"\1", b"\1\5\2a", b"\xff\xff\xff\xff\xff\xff"])
def test_invalid_header_tags_are_rejected(tags: bytes) -> None:
    frame = b"\0\3\0\x09" + bytes(4) + b"\xff\xff" + tags
    with pytest.raises(BadMessage):
        read_request(frame, read_header(frame), codec_of(METADATA, 9))
    with pytest.raises(BadMessage):
        read_response(bytes(4) + tags, codec_of(METADATA, 9))


def test_a_truncated_response_is_rejected() -> None:
    with pytest.raises(BadMessage):
        read_response(b"\0\0\0", codec_of(METADATA, 1))


@pytest.mark.parametrize(("key", "version"), [(METADATA, -1), (METADATA, 99), (9999, 0)])
def test_unknown_apis_and_versions_are_rejected(key: int, version: int) -> None:
    with pytest.raises(KeyError):
        codec_of(key, version)


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


@pytest.mark.parametrize(
    ("key", "most"),
    [
        (11, MAX_MEMBER_REQUEST),
        (76, MAX_MEMBER_REQUEST),
        (METADATA, MAX_CONTROL_REQUEST),
        (999, MAX_CONTROL_REQUEST),
    ],
)
def test_a_request_is_rejected_above_the_limit_of_its_key(key: int, most: int) -> None:
    """As soon as the key has arrived, also in two pieces."""
    head = key.to_bytes(2)
    splitter, frames = FrameSplitter(1 << 30), list[bytes]()
    splitter.split(most.to_bytes(4) + head, frames)
    splitter.split(bytes(most - 2), frames)
    assert [len(frame) for frame in frames] == [most]
    splitter.split((most + 1).to_bytes(4) + head[:1], frames)
    with pytest.raises(BadMessage, match=f"with API key {key}; {most} are allowed"):
        splitter.split(head[1:], frames)


def test_produce_requests_have_only_the_limit_of_the_connection() -> None:
    splitter, frames = FrameSplitter(1 << 30), list[bytes]()
    size = MAX_CONTROL_REQUEST + 1
    splitter.split(size.to_bytes(4) + bytes(size), frames)
    assert [len(frame) for frame in frames] == [size]
    assert max_request_bytes(0) is None


def test_a_discarded_frame_is_forgotten() -> None:
    splitter, frames = FrameSplitter(100), list[bytes]()
    splitter.split(framed(bytes(50))[:20], frames)
    splitter.discard()
    splitter.split(framed(b"next"), frames)
    assert frames == [b"next"]


def test_the_largest_frame_is_accepted() -> None:
    frames: list[bytes] = []
    FrameSplitter(100).split(framed(bytes(100)), frames)
    assert frames == [bytes(100)]


def test_splitting_a_frame_byte_by_byte_takes_linear_memory() -> None:
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


def request(epoch: int, **fields: Any) -> Any:
    wanted = {"group_id": "g" * 200, "member_id": "m", "max_wait_ms": 500, "max_records": 5, **fields}
    return ShareFetchRequest(share_session_epoch=epoch, **wanted)


def frame(
    number: int, epoch: int, version: int = 2, client_id: str | None = "client", **fields: Any
) -> bytes:
    return bytes(request_frame(number, client_id, codec_of(78, version), request(epoch, **fields)))


def pattern(version: int = 2, client_id: str | None = "client") -> RequestTemplate:
    return RequestTemplate(codec_of(78, version), client_id, request(7), "share_session_epoch")


@each("version", [1, 2])
@each("client_id", ["client", "", None])
@each("number, epoch", [(1, 8), (2**31 - 1, 2**31 - 1), (-1, 0), (0, -1)])
def test_correlation_id_and_epoch_may_differ(
    version: int, client_id: str | None, number: int, epoch: int
) -> None:
    data = frame(number, epoch, version, client_id)
    known = pattern(version, client_id)
    assert known.matches(data, epoch)
    assert not known.matches(data, 12)
    assert known.matches(data, epoch)
    assert int.from_bytes(data[CORRELATION], signed=True) == number


def test_without_an_epoch_field_only_the_correlation_id_may_differ() -> None:
    known = RequestTemplate(codec_of(78, 2), "client", request(7))
    assert known.matches(frame(1, 7))
    assert known.matches(frame(2, 7))
    assert not known.matches(frame(1, 8))


def test_correlation_id_of_a_response_is_replaced() -> None:
    response = response_frame(0x01020304, codec_of(78, 2), ShareFetchResponse())
    assert response[RESPONSE_CORRELATION] == bytes([1, 2, 3, 4])


@each(
    "other",
    [
        frame(1, 8, version=1),
        frame(1, 8, client_id="another"),
        frame(1, 8, client_id="CLIENT"),
        frame(1, 8, member_id="n"),
        frame(1, 8, max_wait_ms=501),
        frame(1, 8, topics=[ShareFetchRequest.FetchTopic(topic_id="", partitions=[])]),
        frame(1, 8) + frame(2, 9),
        frame(1, 8)[:-1],
        frame(1, 8)[:-1] + b"\x01",
        b"",
    ],
)
def test_another_request_does_not_match(other: bytes) -> None:
    assert pattern().matches(frame(1, 8), 8)
    assert not pattern().matches(other, 8)


def test_the_original_request_is_unchanged() -> None:
    first = request(7)
    RequestTemplate(codec_of(78, 2), None, first, "share_session_epoch")
    assert first == request(7)
