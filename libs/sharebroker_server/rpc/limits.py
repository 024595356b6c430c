"""Limits of calls and request bytes in flight, which bound the memory of a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError

_RETRY_AFTER: Final = 0.5


class CallLimits:
    """Counts calls and streams, at most `max_calls`, and bytes of unary requests, about `max_bytes`.

    A request is accepted while the total is below the limit, so an idle server serves a request of any legal
    size.
    """

    __slots__ = ("_bytes", "_calls", "_max_bytes", "_max_calls")

    def __init__(self, max_calls: int = 20_000, max_bytes: int = 512 << 20) -> None:
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._calls = 0
        self._bytes = 0

    @contextmanager
    def call(self, size: int = 0) -> Iterator[None]:
        """Counts a call with `size` request bytes while it is served. Raises THROTTLING_QUOTA_EXCEEDED."""
        if self._calls >= self._max_calls:
            raise _rejected(f"{self._calls} calls are in flight, which is the limit.")
        if size and self._bytes >= self._max_bytes:
            raise _rejected(f"requests of {self._bytes} bytes are in flight, which is the limit.")
        self._calls += 1
        self._bytes += size
        try:
            yield
        finally:
            self._calls -= 1
            self._bytes -= size


def _rejected(reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"This server is busy: {reason}", retry_after=_RETRY_AFTER
    )
