"""Deserializers of requests, which reject invalid bytes with a KafkaError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from sharebroker_protocol.errors import ErrorCode, KafkaError

Read = Callable[[bytes], Any]

MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Maximum bytes of a served request."""

MAX_READ: Final = 2 * MAX_MESSAGE
"""Maximum bytes of a request that is read and rejected with details;

gRPC rejects larger ones without details.
"""


def raising_kafka_errors(parse: Read) -> Read:
    """Returns `parse` that raises MESSAGE_TOO_LARGE, and INVALID_REQUEST for bytes of no such message."""

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


def returning_errors(read: Read) -> Read:
    """Returns `read` that returns its error:

    where gRPC reads unary requests, an error cannot carry details.
    """

    def read_or_error(data: bytes) -> Any:
        try:
            return read(data)
        except KafkaError as error:
            return error

    return read_or_error
