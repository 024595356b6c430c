"""The context of a call, for servicers that are called without a socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Context:
    """A call that its client ends after `seconds`; None: never."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def time_remaining(self) -> float | None:
        return self._seconds

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5000"

    def auth_context(self) -> Mapping[str, Sequence[bytes]]:
        return {}
