"""Requests and responses as frames: a length of four bytes, a header, a message."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache, cached_property
from struct import Struct as Layout
from typing import Final, NamedTuple

from sharebroker_server.kafka_wire.decoder import BadMessage, Reader, read_message, skip_tags, struct_reader
from sharebroker_server.kafka_wire.encoder import Writer, struct_writer
from sharebroker_server.kafka_wire.message_classes import Message
from sharebroker_server.kafka_wire.schema import ApiSchema, api_schema

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
class Codec:
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


@cache
def codec_of(key: int, version: int) -> Codec:
    """Returns the codec of an API in a version of its schema. Raises KeyError for an unknown one."""
    api = api_schema(key)
    if not api.versions[0] <= version <= api.versions[1]:
        raise KeyError(version)
    return Codec(api, version)


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


def read_request(frame: bytes, header: RequestHeader, codec: Codec) -> Message:
    """Returns the message of a request. Raises BadMessage."""
    try:
        start = skip_tags(frame, header.end) if codec.flexible else header.end
    except IndexError as error:
        raise BadMessage("The header ends too early.") from error
    return read_message(codec.read_request, frame, start)


def response_frame(correlation_id: int, codec: Codec, message: Message) -> bytearray:
    """Returns a response as bytes, with its length prefix."""
    out = bytearray(4)
    out += _NUMBER.pack(correlation_id)
    if codec.tagged_response_header:
        out.append(0)
    codec.write_response(out, message)
    _NUMBER.pack_into(out, 0, len(out) - 4)
    return out


def request_frame(correlation_id: int, client_id: str | None, codec: Codec, message: Message) -> bytearray:
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


def read_response(frame: bytes, codec: Codec) -> tuple[int, Message]:
    """Returns the correlation id and the message of a response without its length prefix.

    Raises BadMessage.
    """
    try:
        (correlation_id,) = _NUMBER.unpack_from(frame)
        start = skip_tags(frame, 4) if codec.tagged_response_header else 4
    except (struct.error, IndexError) as error:
        raise BadMessage("The response ends too early.") from error
    return correlation_id, read_message(codec.read_response, frame, start)
