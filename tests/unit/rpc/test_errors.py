"""Limits of calls, and error fields of a part of a response."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.rpc.errors import CallLimits, refusal, wire


def test_calls_beyond_the_limit_are_rejected() -> None:
    limits = CallLimits(max_calls=1)
    with limits.call(), pytest.raises(KafkaError) as rejected, limits.call():
        pass
    assert rejected.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with limits.call():
        pass


def test_streams_of_a_connection_are_limited() -> None:
    limits = CallLimits(max_streams=2)
    with ExitStack() as streams:
        streams.enter_context(limits.stream("ipv4:10.0.0.1:1"))
        with limits.stream("ipv4:10.0.0.1:1"):
            with pytest.raises(KafkaError, match=r"grpc\.max\.streams\.per\.connection") as rejected:
                streams.enter_context(limits.stream("ipv4:10.0.0.1:1"))
            streams.enter_context(limits.stream("ipv4:10.0.0.1:2"))
        streams.enter_context(limits.stream("ipv4:10.0.0.1:1"))
    assert rejected.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert rejected.value.retry_after


def test_request_is_accepted_below_the_memory_limit() -> None:
    limits = CallLimits(max_bytes=10)
    with ExitStack() as calls:
        calls.enter_context(limits.request(9))
        calls.enter_context(limits.request(1_000))
        with pytest.raises(KafkaError, match="1009 bytes"):
            calls.enter_context(limits.request(1))
        calls.enter_context(limits.request(0))
    with limits.request(1):
        pass


def test_error_fields_are_present_only_for_an_error() -> None:
    assert refusal(None) == {}
    error = KafkaError(ErrorCode.INVALID_REQUEST, "invalid")
    assert refusal(error) == {"error_code": wire(ErrorCode.INVALID_REQUEST), "error_message": error.message}
    assert int(wire(ErrorCode.INVALID_REQUEST)) == int(ErrorCode.INVALID_REQUEST)
