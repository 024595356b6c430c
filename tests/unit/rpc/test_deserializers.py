"""Deserializers of requests."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.rpc import deserializers
from sharebroker_server.rpc.deserializers import raising_kafka_errors, returning_errors


def parse(data: bytes) -> str:
    if data == b"bad":
        raise DecodeError("truncated")
    return data.decode()


def test_invalid_bytes_raise_kafka_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deserializers, "MAX_MESSAGE", 4)
    read = raising_kafka_errors(parse)
    assert read(b"good") == "good"
    with pytest.raises(KafkaError) as invalid:
        read(b"bad")
    assert invalid.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError) as large:
        read(b"large")
    assert (large.value.code, large.value.metadata) == (
        ErrorCode.MESSAGE_TOO_LARGE,
        {"max_message_bytes": "4"},
    )


def test_errors_are_returned_where_they_cannot_be_raised() -> None:
    read = returning_errors(raising_kafka_errors(parse))
    assert read(b"good") == "good"
    assert read(b"bad").code is ErrorCode.INVALID_REQUEST
