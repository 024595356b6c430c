"""Limits of calls, deserializers of requests, and error fields of a part of a response."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from google.protobuf.message import DecodeError

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.rpc import errors as deserializers
from sharebroker_server.rpc.errors import CallLimits, raising_kafka_errors, refusal, returning_errors, wire


def test_calls_beyond_the_limit_are_rejected() -> None:
    limits = CallLimits(max_calls=1)
    with limits.call(), pytest.raises(KafkaError) as rejected, limits.call():
        pass
    assert rejected.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with limits.call():
        pass


def test_request_is_accepted_below_the_memory_limit() -> None:
    limits = CallLimits(max_bytes=10)
    with ExitStack() as calls:
        calls.enter_context(limits.call(9))
        calls.enter_context(limits.call(1_000))
        with pytest.raises(KafkaError, match="1009 bytes"):
            calls.enter_context(limits.call(1))
        calls.enter_context(limits.call())
    with limits.call(1):
        pass


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


def test_error_fields_are_present_only_for_an_error() -> None:
    assert refusal(None) == {}
    error = KafkaError(ErrorCode.INVALID_REQUEST, "invalid")
    assert refusal(error) == {"error_code": wire(ErrorCode.INVALID_REQUEST), "error_message": error.message}
    assert int(wire(ErrorCode.INVALID_REQUEST)) == int(ErrorCode.INVALID_REQUEST)
