"""Requests and responses as frames: a length of four bytes, a header, a message."""

from __future__ import annotations

import struct
from collections.abc import Generator
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property
from struct import Struct as Layout
from typing import Final, NamedTuple

from sharebroker_server.kafka_wire.decoder import (
    BadMessage,
    PausingReader,
    Reader,
    pausing_reader,
    read_in_portions,
    read_message,
    skip_tags,
    struct_reader,
)
from sharebroker_server.kafka_wire.encoder import PausingWriter, Writer, pausing_writer, struct_writer
from sharebroker_server.kafka_wire.layout import Portion
from sharebroker_server.kafka_wire.schema import ApiSchema, Message, api_schema

_HEAD: Final = Layout(">hhih")
_NUMBER: Final = Layout(">i")
API_VERSIONS: Final = 18


class RequestHeader(NamedTuple):
    """The header of a request. `end` is the index after the part of it that all versions share."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int


@dataclass(frozen=True)
class MessageCodec:
    """One API in one version. Readers and writers are compiled when they are first used."""

    api: ApiSchema
    version: int

    @cached_property
    def flexible(self) -> bool:
        """Whether lengths are compact and structs end with tagged fields."""
        return self.version >= self.api.flexible

    @cached_property
    def tagged_response_header(self) -> bool:
        """Whether the response header ends with tagged fields; the one of ApiVersions never does."""
        return self.flexible and self.api.key != API_VERSIONS

    @cached_property
    def read_request(self) -> Reader:
        """Reads the message of a request."""
        return struct_reader(self.api.request, self.version, flexible=self.flexible)

    @cached_property
    def read_request_in_portions(self) -> PausingReader:
        """Reads the message of a request in portions."""
        return pausing_reader(self.api.request, self.version, flexible=self.flexible)

    @cached_property
    def write_request(self) -> Writer:
        """Writes the message of a request."""
        return struct_writer(self.api.request, self.version, flexible=self.flexible)

    @cached_property
    def read_response(self) -> Reader:
        """Reads the message of a response."""
        return struct_reader(self.api.response, self.version, flexible=self.flexible)

    @cached_property
    def write_response(self) -> Writer:
        """Writes the message of a response."""
        return struct_writer(self.api.response, self.version, flexible=self.flexible)

    @cached_property
    def write_response_in_portions(self) -> PausingWriter:
        """Writes the message of a response in portions."""
        return pausing_writer(self.api.response, self.version, flexible=self.flexible)

    def encoded(self, part: Message) -> bytes:
        """Returns a struct of a response as bytes, for an `EncodedArray`."""
        out = bytearray()
        struct_writer(part.struct, self.version, flexible=self.flexible)(out, part)
        return bytes(out)


@cache
def codec_of(key: int, version: int) -> MessageCodec:
    """Returns the codec of an API in a version of its schema. Raises KeyError for an unknown one."""
    api = api_schema(key)
    if not api.versions[0] <= version <= api.versions[1]:
        raise KeyError(version)
    return MessageCodec(api, version)


def read_header(frame: bytes) -> RequestHeader:
    """Returns the part of a request's header that every version has. Raises BadMessage."""
    try:
        key, version, correlation, length = _HEAD.unpack_from(frame)
    except struct.error as error:
        raise BadMessage(f"A request of {len(frame)} bytes.") from error
    end = _HEAD.size + max(length, 0)
    if length < -1 or end > len(frame):
        raise BadMessage(f"A client id of {length} bytes in a request of {len(frame)}.")
    try:
        client_id = None if length < 0 else frame[_HEAD.size : end].decode()
    except UnicodeDecodeError as error:
        raise BadMessage("The client id is not UTF-8.") from error
    return RequestHeader(key, version, correlation, client_id, end)


def read_request(frame: bytes, header: RequestHeader, codec: MessageCodec) -> Message:
    """Returns the message of a request. Raises BadMessage."""
    return read_message(codec.read_request, frame, _start_of_message(frame, header, codec))


def request_in_portions(
    frame: bytes, header: RequestHeader, codec: MessageCodec
) -> Generator[None, None, Message]:
    """Returns the message of a request, and yields after each portion. Raises BadMessage."""
    start = _start_of_message(frame, header, codec)
    return (yield from read_in_portions(codec.read_request_in_portions, frame, start))


def _start_of_message(frame: bytes, header: RequestHeader, codec: MessageCodec) -> int:
    try:
        return skip_tags(frame, header.end) if codec.flexible else header.end
    except IndexError as error:
        raise BadMessage("The header ends too early.") from error


def response_frame(correlation_id: int, codec: MessageCodec, message: Message) -> bytearray:
    """Returns a response as bytes, with its length prefix."""
    out = _response_header(correlation_id, codec)
    codec.write_response(out, message)
    _NUMBER.pack_into(out, 0, len(out) - 4)
    return out


def response_in_portions(
    correlation_id: int, codec: MessageCodec, message: Message
) -> Generator[None, None, bytearray]:
    """Returns what `response_frame` returns, and yields after each portion."""
    out = _response_header(correlation_id, codec)
    yield from codec.write_response_in_portions(out, message, Portion())
    _NUMBER.pack_into(out, 0, len(out) - 4)
    return out


def _response_header(correlation_id: int, codec: MessageCodec) -> bytearray:
    out = bytearray(4)
    out += _NUMBER.pack(correlation_id)
    if codec.tagged_response_header:
        out.append(0)
    return out


def request_frame(
    correlation_id: int, client_id: str | None, codec: MessageCodec, message: Message
) -> bytearray:
    """Returns a request as bytes, with its length prefix."""
    raw = b"" if client_id is None else client_id.encode()
    out = bytearray(4)
    out += (
        _HEAD.pack(codec.api.key, codec.version, correlation_id, -1 if client_id is None else len(raw)) + raw
    )
    if codec.flexible:
        out.append(0)
    codec.write_request(out, message)
    _NUMBER.pack_into(out, 0, len(out) - 4)
    return out


def read_response(frame: bytes, codec: MessageCodec) -> tuple[int, Message]:
    """Returns the correlation id and the message of a response without its length prefix.

    Raises BadMessage.
    """
    try:
        (correlation_id,) = _NUMBER.unpack_from(frame)
        start = skip_tags(frame, _NUMBER.size) if codec.tagged_response_header else _NUMBER.size
    except (struct.error, IndexError) as error:
        raise BadMessage("The response ends too early.") from error
    return correlation_id, read_message(codec.read_response, frame, start)


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


MAX_CONTROL_REQUEST: Final = 4 * 1024 * 1024
"""Maximum bytes of a request without records."""

MAX_MEMBER_REQUEST: Final = 1024 * 1024
"""Maximum bytes of a request whose contents a coordinator stores for each member of a group."""

_PRODUCE, _JOIN_GROUP, _HEARTBEAT, _CONSUMER_HEARTBEAT, _SHARE_HEARTBEAT = 0, 11, 12, 68, 76
_MEMBER_APIS: Final = frozenset({_JOIN_GROUP, _HEARTBEAT, _CONSUMER_HEARTBEAT, _SHARE_HEARTBEAT})
_KEY_BYTES: Final = 2


def max_request_bytes(api_key: int) -> int | None:
    """Returns the maximum bytes of requests of an API; None if only the limit of the connection applies."""
    if api_key == _PRODUCE:
        return None
    return MAX_MEMBER_REQUEST if api_key in _MEMBER_APIS else MAX_CONTROL_REQUEST


class FrameSplitter:
    """Keeps the received part of the frame that is not complete.

    A frame has at most `max_bytes` bytes, and at most `max_request_bytes` of its API key.
    """

    __slots__ = ("_length", "_loose", "_missing", "_pieces", "_unchecked", "max_bytes", "size")

    def __init__(self, max_bytes: int) -> None:
        self.size = 0
        """The size of the incomplete frame; 0 without one, or before all of its length has arrived."""
        self.max_bytes = max_bytes
        self._length = b""
        self._missing = 0
        self._pieces: list[bytes] = []
        self._loose = 0
        self._unchecked = False

    @property
    def begun(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return self.size > 0 or bool(self._length)

    def split(self, data: bytes, frames: list[bytes]) -> None:
        """Appends the frames that `data` completes, without their lengths, to `frames`.

        Raises BadMessage for an invalid length, and for a frame that is larger than its API key permits once
        the key has arrived. The frames before it are in `frames`.
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

    def discard(self) -> None:
        """Discards the incomplete frame."""
        self._begin(0)

    def _begin(self, size: int) -> None:
        self.size = self._missing = size
        self._length = b""
        self._pieces.clear()
        self._loose = 0
        self._unchecked = size > MAX_MEMBER_REQUEST

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._missing -= len(piece)
        self._loose += 1
        if self._unchecked and self.size - self._missing >= _KEY_BYTES:
            self._check_key()
        if self._loose == _MANY:  # a client that sends single bytes must not cost one object per byte
            self._pieces[-_MANY:] = [b"".join(self._pieces[-_MANY:])]
            self._loose = 0

    def _check_key(self) -> None:
        self._unchecked = False
        size = self.size
        api_key = int.from_bytes(b"".join(self._pieces)[:_KEY_BYTES], signed=True)
        limit = max_request_bytes(api_key)
        if limit is not None and size > limit:
            self.discard()
            raise BadMessage(f"A request of {size} bytes with API key {api_key}; {limit} are allowed.")

    def _checked(self, length: bytes) -> int:
        size = int.from_bytes(length, signed=True)
        if 0 < size <= self.max_bytes:
            return size
        protocol = next((name for start, name in _OTHER_PROTOCOLS.items() if length.startswith(start)), None)
        if protocol is not None:
            raise BadMessage(f"The client speaks {protocol}; this is the port for Kafka's protocol.")
        raise BadMessage(f"A request of {size} bytes; 1 to {self.max_bytes} are allowed.")


CORRELATION: Final = slice(8, 12)
"""The correlation id in a request with its length prefix: after length, API key and version."""

RESPONSE_CORRELATION: Final = slice(4, 8)
"""The correlation id in a response with its length prefix."""

_REST: Final = CORRELATION.stop


class RequestTemplate:
    """Matches requests that differ only in their correlation id and in an optional `field` of four bytes."""

    __slots__ = ("_at", "_head", "_number", "_rest")

    def __init__(
        self, codec: MessageCodec, client_id: str | None, request: Message, field: str | None = None
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


def _offset_of(codec: MessageCodec, client_id: str | None, request: Message, field: str) -> int:
    frames = []
    for number in (0, -1):  # all four bytes of the two numbers differ, so the first difference is the field
        changed = copy(request)
        changed.__dict__ = {**request.__dict__, field: number}
        frames.append(bytes(request_frame(0, client_id, codec, changed)))
    return next(at for at, pair in enumerate(zip(*frames, strict=True)) if pair[0] != pair[1])
