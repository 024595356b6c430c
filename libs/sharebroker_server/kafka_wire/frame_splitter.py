"""Splits a stream of bytes into frames."""

from __future__ import annotations

from typing import Final

from sharebroker_server.kafka_wire.decoder import BadMessage

_LENGTH: Final = 4
_MANY: Final = 256
_OTHER_PROTOCOLS: Final = {
    b"GET ": "HTTP",
    b"HEAD": "HTTP",
    b"POST": "HTTP",
    b"PUT ": "HTTP",
    b"PRI ": "HTTP/2, as gRPC clients do",
    b"\x16\x03\x01": "TLS",
    b"\x16\x03\x03": "TLS",
}


class FrameSplitter:
    """Keeps the received part of the frame that is not complete. A frame has at most `max_bytes` bytes."""

    __slots__ = ("_length", "_loose", "_max_bytes", "_missing", "_pieces", "size")

    def __init__(self, max_bytes: int) -> None:
        self.size = 0
        """The size of the incomplete frame; 0 without one, or before all of its length has arrived."""
        self._max_bytes = max_bytes
        self._length = b""
        self._missing = 0
        self._pieces: list[bytes] = []
        self._loose = 0

    @property
    def begun(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return self.size > 0 or bool(self._length)

    def split(self, data: bytes, frames: list[bytes]) -> None:
        """Appends the frames that `data` completes, without their lengths, to `frames`.

        Raises BadMessage for an invalid length; the frames before it are in `frames`.
        """
        at = 0
        while at < len(data):
            if not self.size:
                piece = data[at : at + _LENGTH - len(self._length)]
                self._length += piece
                if len(self._length) == _LENGTH:
                    self._begin(self._checked(self._length))
            else:
                piece = data[at : at + self._missing]
                self._keep(piece)
                if not self._missing:
                    frames.append(b"".join(self._pieces))
                    self._begin(0)
            at += len(piece)

    def _begin(self, size: int) -> None:
        self.size = self._missing = size
        self._length = b""
        self._pieces.clear()
        self._loose = 0

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._missing -= len(piece)
        self._loose += 1
        if self._loose == _MANY:  # a client that sends single bytes must not cost one object per byte
            self._pieces[-_MANY:] = [b"".join(self._pieces[-_MANY:])]
            self._loose = 0

    def _checked(self, length: bytes) -> int:
        size = int.from_bytes(length, signed=True)
        if 0 < size <= self._max_bytes:
            return size
        protocol = next((name for start, name in _OTHER_PROTOCOLS.items() if length.startswith(start)), None)
        if protocol is not None:
            raise BadMessage(f"The client speaks {protocol}; this is the port for Kafka's protocol.")
        raise BadMessage(f"A request of {size} bytes; 1 to {self._max_bytes} are allowed.")
