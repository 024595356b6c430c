"""Headers of requests and answers."""

from __future__ import annotations

import pytest

from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import (
    codec_of,
    read_header,
    read_request,
    read_response,
    request_frame,
    response_frame,
)
from sharebroker_server.kafka_wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

METADATA, API_VERSIONS = 3, 18


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


@pytest.mark.parametrize(("version", "tags"), [(1, b""), (9, b"\0")])
def test_a_response_round_trips(version: int, tags: bytes) -> None:
    response = MetadataResponse(brokers=[], topics=[], controller_id=5)
    frame = response_frame(77, codec_of(METADATA, version), response)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert frame[4 : 8 + len(tags)] == b"\0\0\0\x4d" + tags
    assert read_response(bytes(frame[4:]), codec_of(METADATA, version)) == (77, response)


def test_the_response_header_of_api_versions_has_no_tags() -> None:
    """A client may not know yet whether the version it asked in is there."""
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
