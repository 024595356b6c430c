"""Writes Kafka's messages.

A field that was not set is written as its default. A null is written as empty in a version without nulls.
`struct_writer` compiles one function per struct and version (see codegen). `pausing_writer` compiles a
generator with the same lines, which yields after every 1,000 structs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

from typing_extensions import override

from sharebroker_server.codegen import Lines, Source, indented
from sharebroker_server.kafka_wire.layout import FORMATS, FieldLines, Portion, layout
from sharebroker_server.kafka_wire.schema import Field, Struct, equal_values, id_bytes, message_class

Writer = Callable[[bytearray, Any], None]
"""Appends a value to the bytes.

Raises ValueError, TypeError, struct.error for a value outside the field's type.
"""


PausingWriter = Callable[[bytearray, Any, Portion], Generator[None, None, None]]
"""A `Writer` in portions."""


class EncodedArray(list[bytes]):
    """An array of structs that `struct_writer` encoded already, in the version of the message."""


_Tagged = tuple[int, str, Writer, Any]
"""A tagged field: its tag, name, writer and default."""


def put_uvarint(out: bytearray, value: int) -> None:
    """Appends an unsigned integer in groups of seven bits."""
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


@cache
def struct_writer(struct: Struct, version: int, *, flexible: bool) -> Writer:
    """Returns the function that writes a struct in one version."""
    return _compiled(struct, version, flexible, pausing=False)


@cache
def pausing_writer(struct: Struct, version: int, *, flexible: bool) -> PausingWriter:
    """Returns the function that writes a struct in one version, in portions."""
    return _compiled(struct, version, flexible, pausing=True)


def _compiled(struct: Struct, version: int, flexible: bool, pausing: bool) -> Callable[..., Any]:
    fields = struct.of(version)
    source = Source(f"write_{struct.name}", f"out, message{', portion' if pausing else ''}")
    _WriterLines(source, version, flexible, pausing).add_untagged(fields)
    defaults = message_class(struct)
    tagged: list[_Tagged] = sorted(
        (field.tag, field.name, _tagged_writer(field, version), getattr(defaults, field.name))
        for field in fields
        if field.tag is not None
    )
    if tagged:
        source.refer(_write_tags, "write_tags")
        source.refer(tagged, "tagged")
        source.add(["write_tags(out, message, tagged)"])
    elif flexible:
        source.add(["out.append(0)"])
    source.add(["return"])
    return source.function()


def _tagged_writer(field: Field, version: int) -> Writer:
    source = Source("write_field", "out, value")
    source.add(_WriterLines(source, version, True).field(field, "value"))
    return source.function()


class _WriterLines(FieldLines):
    """Generates the lines that write the fields of one version."""

    def __init__(self, source: Source, version: int, flexible: bool, pausing: bool = False) -> None:
        super().__init__(source, version, flexible, pausing)
        source.refer(put_uvarint, "put_uvarint")
        source.refer(struct.pack, "pack_all")

    @override
    def run(self, run: list[Field]) -> Lines:
        values = (self._plain(field, f"message.{field.name}") for field in run)
        return [self._pack(layout(run), ", ".join(values))]

    @override
    def field(self, field: Field, value: str) -> Lines:
        nullable = field.is_nullable(self._version)
        if field.array:
            return self._array(field, value, nullable)
        if field.struct is not None and nullable:
            lines = ["out.append(1)", *self._item(field, value)]
            return [f"if {value} is None:", "    out.append(0xFF)", "else:", *indented(lines)]
        return self._item(field, value, nullable)

    def _item(self, field: Field, value: str, nullable: bool = False) -> Lines:
        if field.struct is not None and self.pauses_in(field):
            pausing = pausing_writer(field.struct, self._version, flexible=self._flexible)
            return [f"yield from {self._source.refer(pausing, 'write_in_portions')}(out, {value}, portion)"]
        if field.struct is not None:
            writer = struct_writer(field.struct, self._version, flexible=self._flexible)
            return [f"{self._source.refer(writer, 'write_struct')}(out, {value})"]
        if field.type in FORMATS:
            return [self._pack(f">{FORMATS[field.type]}", self._plain(field, value))]
        convert = ".encode()" if field.type == "string" else ""
        size = "h" if field.type == "string" else "i"
        return [
            f"raw = {value}",
            "if raw is None:",
            f"    {self._null(size, nullable)}",
            "else:",
            f"    raw = raw{convert}",
            *indented(self._size("len(raw)", size)),
            "    out += raw",
        ]

    def _array(self, field: Field, value: str, nullable: bool) -> Lines:
        return [
            f"items = {value}",
            "if items is None:",
            f"    {self._null('i', nullable)}",
            "else:",
            *indented(self._size("len(items)", "i")),
            *indented(self._items(field)),
        ]

    def _items(self, field: Field) -> Lines:
        if field.type in FORMATS and field.type != "uuid":
            return [f"out += pack_all(f'>{{len(items)}}{FORMATS[field.type]}', *items)"]
        items = ["for item in items:", *indented([*self._item(field, "item"), *self.pause(field)])]
        if field.struct is None:
            return items
        encoded = self._source.refer(EncodedArray, "EncodedArray")
        return [
            f"if type(items) is {encoded}:",
            "    out += b''.join(items)",
            "else:",
            *indented(items),
        ]

    def _size(self, size: str, classic: str) -> Lines:
        if self._flexible:
            return [
                f"n = {size} + 1",
                "if n < 0x80:",
                "    out.append(n)",
                "else:",
                "    put_uvarint(out, n)",
            ]
        return [self._pack(f">{classic}", size)]

    def _null(self, classic: str, nullable: bool) -> str:
        if self._flexible:
            return f"out.append({0 if nullable else 1})"
        return self._pack(f">{classic}", "-1" if nullable else "0")

    def _pack(self, layout: str, values: str) -> str:
        return f"out += {self._source.refer(struct.Struct(layout).pack, 'pack')}({values})"

    def _plain(self, field: Field, value: str) -> str:
        """Returns the expression that `pack` receives for a value of fixed size."""
        return f"{self._source.refer(id_bytes, 'id_bytes')}({value})" if field.type == "uuid" else value


def _write_tags(out: bytearray, message: Any, tagged: list[_Tagged]) -> None:
    present = []
    for tag, name, writer, default in tagged:
        value = getattr(message, name)
        if value is not default and not equal_values(value, default):
            content = bytearray()
            writer(content, value)
            present.append((tag, content))
    put_uvarint(out, len(present))
    for tag, content in present:
        put_uvarint(out, tag)
        put_uvarint(out, len(content))
        out += content
