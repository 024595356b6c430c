"""Requests as they come off the wire: what cannot be read is refused with a KafkaError, as all else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from sharebroker_protocol.errors import ErrorCode, KafkaError

Read = Callable[[bytes], Any]

MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Bytes of the largest request that is served."""

MAX_READ: Final = 2 * MAX_MESSAGE
"""Bytes of the largest request that is read, to be refused with details; above, gRPC refuses without any."""


def reading(parse: Read) -> Read:
    """`parse` with refusals: MESSAGE_TOO_LARGE, and INVALID_REQUEST for bytes that are no such message."""

    def read(data: bytes) -> Any:
        if len(data) > MAX_MESSAGE:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"A message of {len(data)} bytes is larger than {MAX_MESSAGE}.",
                metadata={"max_message_bytes": str(MAX_MESSAGE)},
            )
        try:
            return parse(data)
        except DecodeError as failure:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"The message cannot be decoded: {failure}."
            ) from failure

    return read


def holding(read: Read) -> Read:
    """`read` that returns its refusal: a unary request is read where nobody can give the error details."""

    def hold(data: bytes) -> Any:
        try:
            return read(data)
        except KafkaError as refusal:
            return refusal

    return hold
