"""How much may be under way at a time in a server, so that no crowd of callers takes all its memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError

_RETRY_AFTER: Final = 0.5


class UnderWay:
    """Counts calls and streams, at most `most_calls`, and bytes of unary requests, about `most_bytes`.

    A request is taken while there is any room: one of any legal size can be served by an idle server.
    """

    __slots__ = ("_bytes", "_calls", "_most_bytes", "_most_calls")

    def __init__(self, most_calls: int = 20_000, most_bytes: int = 512 << 20) -> None:
        self._most_calls = most_calls
        self._most_bytes = most_bytes
        self._calls = 0
        self._bytes = 0

    @contextmanager
    def call(self, size: int = 0) -> Iterator[None]:
        """Around the serving of a call whose request has `size` bytes. Raises THROTTLING_QUOTA_EXCEEDED."""
        if self._calls >= self._most_calls:
            raise _refused(f"{self._calls} calls are under way, and no more may be.")
        if size and self._bytes >= self._most_bytes:
            raise _refused(f"requests of {self._bytes} bytes are under way, and no more may be.")
        self._calls += 1
        self._bytes += size
        try:
            yield
        finally:
            self._calls -= 1
            self._bytes -= size


def _refused(reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"This server is busy: {reason}", retry_after=_RETRY_AFTER
    )
