"""Requests and answers as frames: a length of four bytes, a header, a message."""

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
    """Who asks what; `end` is where the header's parts that all versions share end."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int


@dataclass(frozen=True)
class Codec:
    """One API in one version; what reads and writes is made when it is first needed."""

    api: ApiSchema
    version: int

    @cached_property
    def flexible(self) -> bool:
        """Whether lengths are compact and structs end with tagged fields."""
        return self.version >= self.api.flexible

    @cached_property
    def tagged_answer(self) -> bool:
        """Whether the header of an answer ends with tagged fields; that of ApiVersions never does."""
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
        """Reads the message of an answer."""
        return struct_reader(self.api.response, self.version, flexible=self.flexible)

    @cached_property
    def write_response(self) -> Writer:
        """Writes the message of an answer."""
        return struct_writer(self.api.response, self.version, flexible=self.flexible)


@cache
def codec(key: int, version: int) -> Codec:
    """How to speak an API in a version of its schema. Raises KeyError where there is none."""
    api = api_schema(key)
    if not api.versions[0] <= version <= api.versions[1]:
        raise KeyError(version)
    return Codec(api, version)


def read_header(frame: bytes) -> RequestHeader:
    """The header of a request, as far as every version has it. Raises BadMessage."""
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


def read_request(frame: bytes, header: RequestHeader, how: Codec) -> Message:
    """The message of a request. Raises BadMessage."""
    try:
        start = skip_tags(frame, header.end) if how.flexible else header.end
    except IndexError as error:
        raise BadMessage("The header ends too early.") from error
    return read_message(how.read_request, frame, start)


def response_frame(correlation_id: int, how: Codec, message: Message) -> bytearray:
    """An answer, its length in front."""
    out = bytearray(4)
    out += _NUMBER.pack(correlation_id)
    if how.tagged_answer:
        out.append(0)
    how.write_response(out, message)
    _NUMBER.pack_into(out, 0, len(out) - 4)
    return out


def request_frame(correlation_id: int, client_id: str | None, how: Codec, message: Message) -> bytearray:
    """A request, its length in front."""
    raw = b"" if client_id is None else client_id.encode()
    out = bytearray(4)
    out += _HEAD.pack(how.api.key, how.version, correlation_id, -1 if client_id is None else len(raw)) + raw
    if how.flexible:
        out.append(0)
    how.write_request(out, message)
    _NUMBER.pack_into(out, 0, len(out) - 4)
    return out


def read_response(frame: bytes, how: Codec) -> tuple[int, Message]:
    """The correlation id and the message of an answer without its length. Raises BadMessage."""
    try:
        (correlation_id,) = _NUMBER.unpack_from(frame)
        start = skip_tags(frame, 4) if how.tagged_answer else 4
    except (struct.error, IndexError) as error:
        raise BadMessage("The answer ends too early.") from error
    return correlation_id, read_message(how.read_response, frame, start)
