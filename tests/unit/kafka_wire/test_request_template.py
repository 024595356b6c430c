"""Requests are known by their bytes when nothing in them is new but what may be."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_server.kafka_wire.frames import codec_of, request_frame, response_frame
from sharebroker_server.kafka_wire.messages import ShareFetchRequest, ShareFetchResponse
from sharebroker_server.kafka_wire.request_template import CORRELATION, RESPONSE_CORRELATION, RequestTemplate


def request(epoch: int, **fields: Any) -> Any:
    wanted = {"group_id": "g" * 200, "member_id": "m", "max_wait_ms": 500, "max_records": 5, **fields}
    return ShareFetchRequest(share_session_epoch=epoch, **wanted)


def frame(
    number: int, epoch: int, version: int = 2, client_id: str | None = "client", **fields: Any
) -> bytes:
    return bytes(request_frame(number, client_id, codec_of(78, version), request(epoch, **fields)))


def pattern(version: int = 2, client_id: str | None = "client") -> RequestTemplate:
    return RequestTemplate(codec_of(78, version), client_id, request(7), "share_session_epoch")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("client_id", ["client", "", None])
@pytest.mark.parametrize(("number", "epoch"), [(1, 8), (2**31 - 1, 2**31 - 1), (-1, 0), (0, -1)])
def test_correlation_id_and_epoch_may_differ(
    version: int, client_id: str | None, number: int, epoch: int
) -> None:
    data = frame(number, epoch, version, client_id)
    known = pattern(version, client_id)
    assert known.matches(data, epoch)
    assert not known.matches(data, 12)
    assert known.matches(data, epoch)
    assert int.from_bytes(data[CORRELATION], signed=True) == number


def test_without_a_field_only_the_correlation_id_may_differ() -> None:
    known = RequestTemplate(codec_of(78, 2), "client", request(7))
    assert known.matches(frame(1, 7))
    assert known.matches(frame(2, 7))
    assert not known.matches(frame(1, 8))


def test_the_correlation_id_of_a_response() -> None:
    answer = response_frame(0x01020304, codec_of(78, 2), ShareFetchResponse())
    assert answer[RESPONSE_CORRELATION] == bytes([1, 2, 3, 4])


@pytest.mark.parametrize(
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
