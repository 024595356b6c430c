"""Limits of the calls of a server, and error fields of responses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.status.v1 import status_pb2

_RETRY_AFTER: Final = 0.5


class CallLimits:
    """Counts calls and streams, at most `max_calls`, and bytes of unary requests, about `max_bytes`.

    A request is accepted while the total is below the limit, so an idle server serves a request of any legal
    size. Of the streams, each connection of a client has at most `max_streams`.
    """

    __slots__ = ("_bytes", "_calls", "_max_bytes", "_max_calls", "_max_streams", "_streams")

    def __init__(self, max_calls: int = 20_000, max_bytes: int = 128 << 20, max_streams: int = 1_000) -> None:
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._max_streams = max_streams
        self._calls = 0
        self._bytes = 0
        self._streams: dict[str, int] = {}

    @contextmanager
    def call(self) -> Iterator[None]:
        """Counts a call from its begin to its end. Raises THROTTLING_QUOTA_EXCEEDED."""
        if self._calls >= self._max_calls:
            raise _rejected(f"{self._calls} calls are in flight, which is the limit.")
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1

    @contextmanager
    def stream(self, connection: str | None) -> Iterator[None]:
        """Counts a stream of a client's connection while it is open. Raises THROTTLING_QUOTA_EXCEEDED.

        None stands for a connection without a limit.
        """
        if connection is None:
            yield
            return
        streams = self._streams.get(connection, 0)
        if streams >= self._max_streams:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"This connection has {streams} streams, which is the limit grpc.max.streams.per.connection.",
                retry_after=_RETRY_AFTER,
            )
        self._streams[connection] = streams + 1
        try:
            yield
        finally:
            self._streams[connection] -= 1
            if not self._streams[connection]:
                del self._streams[connection]

    @contextmanager
    def request(self, size: int) -> Iterator[None]:
        """Counts the bytes of a unary request while it is served. Raises THROTTLING_QUOTA_EXCEEDED."""
        if size and self._bytes >= self._max_bytes:
            raise _rejected(f"requests of {self._bytes} bytes are in flight, which is the limit.")
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size


def _rejected(reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"This server is busy: {reason}", retry_after=_RETRY_AFTER
    )


def wire(code: ErrorCode) -> status_pb2.ErrorCode.ValueType:
    """Returns an error code as the value of a message field."""
    return cast("status_pb2.ErrorCode.ValueType", int(code))


def refusal(error: KafkaError | None) -> dict[str, Any]:
    """Returns the error fields of a part; none for a part that succeeded."""
    return {"error_code": wire(error.code), "error_message": error.message} if error else {}
