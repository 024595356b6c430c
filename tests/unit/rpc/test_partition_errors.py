"""Error fields of a part of a response."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.rpc.partition_errors import refusal, wire


def test_error_fields_are_present_only_for_an_error() -> None:
    assert refusal(None) == {}
    error = KafkaError(ErrorCode.INVALID_REQUEST, "invalid")
    assert refusal(error) == {"error_code": wire(ErrorCode.INVALID_REQUEST), "error_message": error.message}
    assert int(wire(ErrorCode.INVALID_REQUEST)) == int(ErrorCode.INVALID_REQUEST)
