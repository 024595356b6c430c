"""Error codes as messages carry them: the numbers are Kafka's on both sides, only the types differ."""

from __future__ import annotations

from typing import cast

from sharebroker.errors import ErrorCode
from sharebroker.status.v1 import status_pb2


def wire(code: ErrorCode) -> status_pb2.ErrorCode.ValueType:
    """For a field of a message."""
    return cast("status_pb2.ErrorCode.ValueType", int(code))


def code_of(code: int) -> ErrorCode:
    """Of a field of a message; a code that this version does not know counts as UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
