"""Encoded messages of any descriptor for Hypothesis: valid ones, damaged ones and garbage.

Source of the encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

Values = Mapping[str, st.SearchStrategy[Any]]
"""Values of fields by name or full name, drawn instead of others."""

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_DEPTH: Final = 6
_WORD: Final = (1 << 64) - 1

_EXTREMES: Final = ((1 << 31) - 1, -1 << 31, (1 << 63) - 1, -1 << 63)
_INTEGERS: Final = st.sampled_from([0, 0, 0, 0, 1, 1, 1, 2, 3, 5, -1, *_EXTREMES])
_TEXTS: Final = st.text(max_size=12) | st.text("x", min_size=200, max_size=300)

_FALSE: Final = st.sampled_from(
    [
        b"",
        b"\x00",
        b"\x7f",
        b"\xff",
        b"\xff\xff\xff\xff\x0f",
        b"\xff" * 9 + b"\x01",
        b"\xff" * 11,
        b"\x0b\x0c",
    ]
)
"""False lengths and tags, and the tags of a group."""


def any_bytes(message: Descriptor, values: Values) -> st.SearchStrategy[bytes]:
    """Draws valid, damaged and arbitrary bytes for a message, most often valid ones."""
    valid = encoded(message, values)
    return st.one_of(valid, valid, _damaged(valid), st.binary(max_size=60))


def encoded(message: Descriptor, values: Values, depth: int = _DEPTH) -> st.SearchStrategy[bytes]:
    """Draws valid encoded messages. Each field is set or not; a repeated field has up to three elements."""
    fields = [_field(field, values, depth) for field in message.fields if depth or field.message_type is None]
    return st.tuples(*fields).map(b"".join)


def _damaged(valid: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    def damage(data: bytes, at: float, false: bytes, kept: bool) -> bytes:
        position = int(at * len(data))
        return data[:position] + false + (data[position + len(false) :] if kept else b"")

    return st.builds(damage, valid, st.floats(0, 1), _FALSE | st.binary(max_size=4), st.booleans())


def _field(field: FieldDescriptor, values: Values, depth: int) -> st.SearchStrategy[bytes]:
    one = _values(field, values, depth)
    if _known(field, values) is not None and not field.is_repeated:
        return one  # a request without its topic or group is rejected before the rest is read
    return st.lists(one, max_size=3 if field.is_repeated else 1).map(b"".join)


def _values(field: FieldDescriptor, values: Values, depth: int) -> st.SearchStrategy[bytes]:
    known = _known(field, values)
    if known is None:
        known = _others(field)
    match field.type:
        case FieldDescriptor.TYPE_MESSAGE:
            assert field.message_type is not None
            return encoded(field.message_type, values, depth - 1).map(lambda data: _sized(field, data))
        case FieldDescriptor.TYPE_STRING:
            return known.map(lambda text: _sized(field, text.encode()))
        case FieldDescriptor.TYPE_BYTES:
            return known.map(lambda data: _sized(field, data))
        case FieldDescriptor.TYPE_DOUBLE:
            return st.floats().map(lambda number: _tag(field, _EIGHT) + struct.pack("<d", number))
        case FieldDescriptor.TYPE_FLOAT:
            return st.floats(width=32).map(lambda number: _tag(field, _FOUR) + struct.pack("<f", number))
        case FieldDescriptor.TYPE_FIXED64 | FieldDescriptor.TYPE_SFIXED64:
            return st.binary(min_size=8, max_size=8).map(lambda data: _tag(field, _EIGHT) + data)
        case FieldDescriptor.TYPE_FIXED32 | FieldDescriptor.TYPE_SFIXED32:
            return st.binary(min_size=4, max_size=4).map(lambda data: _tag(field, _FOUR) + data)
        case FieldDescriptor.TYPE_BOOL:
            return st.integers(0, 1).map(lambda number: _tag(field, _VARINT) + _varint(number))
        case FieldDescriptor.TYPE_ENUM:
            assert field.enum_type is not None
            numbers = st.sampled_from([*(value.number for value in field.enum_type.values), 99, -7])
            return numbers.map(lambda number: _tag(field, _VARINT) + _varint(number))
        case _:
            return known.map(lambda number: _tag(field, _VARINT) + _varint(number))


def _known(field: FieldDescriptor, values: Values) -> st.SearchStrategy[Any] | None:
    return values.get(field.full_name, values.get(field.name))


def _others(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return _TEXTS
        case FieldDescriptor.TYPE_BYTES:
            return st.binary(max_size=30)
        case _:
            return _INTEGERS


def _sized(field: FieldDescriptor, data: bytes) -> bytes:
    return _tag(field, _LENGTH) + _varint(len(data)) + data


def _tag(field: FieldDescriptor, wire_type: int) -> bytes:
    return _varint(field.number << 3 | wire_type)


def _varint(number: int) -> bytes:
    number &= _WORD
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
