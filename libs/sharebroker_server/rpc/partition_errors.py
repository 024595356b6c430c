"""Errors of single partitions in a response: one part of a request may fail alone."""

from __future__ import annotations

from typing import Any, cast

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.status.v1 import status_pb2


def wire(code: ErrorCode) -> status_pb2.ErrorCode.ValueType:
    """Returns an error code as the value of a message field."""
    return cast("status_pb2.ErrorCode.ValueType", int(code))


def refusal(error: KafkaError | None) -> dict[str, Any]:
    """Returns the error fields of a part; none for a part that succeeded."""
    return {"error_code": wire(error.code), "error_message": error.message} if error else {}
