"""Refusals that stand in a message: where a request has several parts, one may be refused alone."""

from __future__ import annotations

from typing import Any, cast

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.status.v1 import status_pb2


def wire(code: ErrorCode) -> status_pb2.ErrorCode.ValueType:
    """An error code as a field of a message: the number is the same."""
    return cast("status_pb2.ErrorCode.ValueType", int(code))


def refusal(error: KafkaError | None) -> dict[str, Any]:
    """The fields that say why a part was refused; none for one that was not."""
    return {"error_code": wire(error.code), "error_message": error.message} if error else {}
