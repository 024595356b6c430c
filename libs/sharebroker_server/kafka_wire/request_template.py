"""Recognises the repetition of a request by its bytes."""

from __future__ import annotations

from copy import copy
from struct import Struct as Layout
from typing import Final

from sharebroker_server.kafka_wire.frames import Codec, request_frame
from sharebroker_server.kafka_wire.message_classes import Message

CORRELATION: Final = slice(8, 12)
"""The correlation id in a request with its length prefix: after length, API key and version."""

RESPONSE_CORRELATION: Final = slice(4, 8)
"""The correlation id in a response with its length prefix."""

_REST: Final = CORRELATION.stop
_NUMBER: Final = Layout(">i")


class RequestTemplate:
    """Matches requests that differ only in their correlation id and in an optional `field` of four bytes."""

    __slots__ = ("_at", "_head", "_number", "_rest")

    def __init__(
        self, codec: Codec, client_id: str | None, request: Message, field: str | None = None
    ) -> None:
        frame = bytes(request_frame(0, client_id, codec, request))
        self._head = frame[: CORRELATION.start]
        self._rest = bytearray(frame[_REST:])
        self._number: int | None = None
        self._at = _offset_of(codec, client_id, request, field) - _REST if field is not None else 0

    def matches(self, data: bytes, number: int | None = None) -> bool:
        """Returns whether the bytes are one whole such request, with `number` in the field."""
        if number != self._number and number is not None:
            _NUMBER.pack_into(self._rest, self._at, number)
            self._number = number
        return data[_REST:] == self._rest and data.startswith(self._head)


def _offset_of(codec: Codec, client_id: str | None, request: Message, field: str) -> int:
    frames = []
    for number in (0, -1):  # all four bytes of the two numbers differ, so the first difference is the field
        changed = copy(request)
        changed.__dict__ = {**request.__dict__, field: number}
        frames.append(bytes(request_frame(0, client_id, codec, changed)))
    return next(at for at, pair in enumerate(zip(*frames, strict=True)) if pair[0] != pair[1])
