"""Requests that a client sends again and again, known by their bytes."""

from __future__ import annotations

from copy import copy
from struct import Struct as Layout
from typing import Final

from sharebroker_server.kafka_wire.frames import Codec, request_frame
from sharebroker_server.kafka_wire.message_classes import Message

CORRELATION: Final = slice(8, 12)
"""Where a request, its length in front, has its correlation id: behind length, API key and version."""

ANSWERED: Final = slice(4, 8)
"""Where an answer, its length in front, has it."""

_BEHIND: Final = CORRELATION.stop
_NUMBER: Final = Layout(">i")


class RequestPattern:
    """Requests that differ in their correlation id and, where it is named, a `field` of four bytes."""

    __slots__ = ("_at", "_head", "_number", "_rest")

    def __init__(self, how: Codec, client_id: str | None, request: Message, field: str | None = None) -> None:
        frame = bytes(request_frame(0, client_id, how, request))
        self._head = frame[: CORRELATION.start]
        self._rest = bytearray(frame[_BEHIND:])
        self._number: int | None = None
        self._at = _where(how, client_id, request, field) - _BEHIND if field is not None else 0

    def fits(self, data: bytes, number: int | None = None) -> bool:
        """Whether the bytes are such a request, its length in front and whole, with this number."""
        if number != self._number and number is not None:
            _NUMBER.pack_into(self._rest, self._at, number)
            self._number = number
        return data[_BEHIND:] == self._rest and data.startswith(self._head)


def _where(how: Codec, client_id: str | None, request: Message, field: str) -> int:
    frames = []
    for number in (0, -1):  # no byte of theirs is the same: that shows where they are
        one = copy(request)
        one.__dict__ = {**request.__dict__, field: number}
        frames.append(bytes(request_frame(0, client_id, how, one)))
    return next(at for at, pair in enumerate(zip(*frames, strict=True)) if pair[0] != pair[1])
