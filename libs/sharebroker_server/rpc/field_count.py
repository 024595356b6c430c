"""Counts the fields of an encoded message before it is decoded.

An empty element of a repeated field takes two bytes on the wire, and seventy once it is decoded. The count
follows the fields of nested messages and skips the content of strings and bytes
(https://protobuf.dev/programming-guides/encoding/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, Literal

from google.protobuf.descriptor import Descriptor, FieldDescriptor

_LENGTH: Final = 2
"""The wire type of strings, bytes, messages and packed numbers."""

_ONE_BYTE: Final = 0x7F
_LONGEST_VARINT: Final = 10

_NUMBERS_PER_FIELD: Final = 16
"""Bytes of a packed repeated field that count as one field: numbers are decoded faster than messages."""

_PORTION: Final = 2_000
"""Fields counted in one step: about a millisecond."""

_UNPACKED: Final = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


class Malformed(ValueError):
    """The bytes are no message."""


class TooManyFields(ValueError):
    """The message has more fields than the limit."""


def count_fields(data: bytes, message: Descriptor, limit: int) -> Iterator[None]:
    """Counts the fields of `data`, an encoded `message`; yields after each portion of the work.

    Raises TooManyFields beyond `limit`, and Malformed for bytes that are no message of proto3.
    """
    count, position, end = 0, 0, len(data)
    portion_ends = min(_PORTION, limit + 1)
    kinds = _kinds(message)
    outer: list[tuple[int, Mapping[int, _Kind]]] = []
    while True:
        while position == end:
            if not outer:
                return
            end, kinds = outer.pop()
        count += 1
        number = data[position]
        position += 1
        if number > _ONE_BYTE:
            number, position = _varint(data, position - 1)
        if number & 7 == _LENGTH:
            size, position = _varint(data, position)
            kind = kinds.get(number)
            if kind is None or not size:
                position += size
            elif kind is True:
                position += size
                count += size // _NUMBERS_PER_FIELD
            elif position + size > end:
                raise Malformed
            else:
                outer.append((end, kinds))
                end, kinds = position + size, _kinds(kind)
        else:
            position = _after_number(data, position, number & 7)
        if position > end:
            raise Malformed
        if count >= portion_ends:
            if count > limit:
                raise TooManyFields
            portion_ends = min(count + _PORTION, limit + 1)
            yield


def _after_number(data: bytes, position: int, wire_type: int) -> int:
    """Returns the position after a number. Raises Malformed for a group, which proto3 does not have."""
    match wire_type:
        case 0:
            return _varint(data, position)[1]
        case 1:
            return position + 8
        case 5:
            return position + 4
        case _:
            raise Malformed


_Kind = Descriptor | Literal[True]
"""How a field with a length continues: with the fields of a message, or with packed numbers (True)."""


@cache
def _kinds(message: Descriptor) -> Mapping[int, _Kind]:
    """Returns the kinds of the fields by tag; those of strings and bytes are missing."""
    kinds = {field.number << 3 | _LENGTH: _kind(field) for field in message.fields}
    return {tag: kind for tag, kind in kinds.items() if kind is not None}


def _kind(field: FieldDescriptor) -> _Kind | None:
    if field.message_type is not None:
        return field.message_type
    return True if field.is_repeated and field.type not in _UNPACKED else None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns a number and the position after it. Raises Malformed."""
    if position < len(data) and (byte := data[position]) <= _ONE_BYTE:
        return byte, position + 1
    number = shift = 0
    for index in range(position, min(len(data), position + _LONGEST_VARINT)):
        byte = data[index]
        number |= (byte & 0x7F) << shift
        if byte <= _ONE_BYTE:
            return number, index + 1
        shift += 7
    raise Malformed
