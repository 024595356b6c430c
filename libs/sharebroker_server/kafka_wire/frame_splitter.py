"""Cuts a stream of bytes into frames, whatever pieces it comes in."""

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


class Cutter:
    """Keeps what has come of the frame that is not whole yet. A frame has at most `most` bytes."""

    __slots__ = ("_length", "_loose", "_missing", "_most", "_pieces", "size")

    def __init__(self, most: int) -> None:
        self.size = 0
        """The size of the frame that has begun; 0 where none has, or not all of its length is there."""
        self._most = most
        self._length = b""
        self._missing = 0
        self._pieces: list[bytes] = []
        self._loose = 0

    @property
    def begun(self) -> bool:
        """Whether there is a part of a frame."""
        return self.size > 0 or bool(self._length)

    def cut(self, data: bytes, frames: list[bytes]) -> None:
        """Append the frames, without their lengths, that `data` completes.

        Raises BadMessage for a length that cannot be; what came before it is in `frames`.
        """
        at = 0
        while at < len(data):
            if not self.size:
                taken = data[at : at + _LENGTH - len(self._length)]
                self._length += taken
                if len(self._length) == _LENGTH:
                    self._begin(self._checked(self._length))
            else:
                taken = data[at : at + self._missing]
                self._keep(taken)
                if not self._missing:
                    frames.append(b"".join(self._pieces))
                    self._begin(0)
            at += len(taken)

    def _begin(self, size: int) -> None:
        self.size = self._missing = size
        self._length = b""
        self._pieces.clear()
        self._loose = 0

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._missing -= len(piece)
        self._loose += 1
        if self._loose == _MANY:  # who sends byte by byte shall not cost an object a byte
            self._pieces[-_MANY:] = [b"".join(self._pieces[-_MANY:])]
            self._loose = 0

    def _checked(self, length: bytes) -> int:
        size = int.from_bytes(length, signed=True)
        if 0 < size <= self._most:
            return size
        speaks = next((name for start, name in _OTHER_PROTOCOLS.items() if length.startswith(start)), None)
        if speaks is not None:
            raise BadMessage(f"The client speaks {speaks}; this is the port for Kafka's protocol.")
        raise BadMessage(f"A request of {size} bytes; 1 to {self._most} are taken.")
