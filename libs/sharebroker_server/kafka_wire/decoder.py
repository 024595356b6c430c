"""Reads Kafka's messages from bytes that may come from anybody.

Every length is compared with the bytes that are there before anything is made of it, and a message has a
bounded number of entries: it costs no more memory and time than a small multiple of an honest one's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NoReturn

from sharebroker_server.kafka_wire.codegen import FORMATS, Lines, Source, indented, is_fixed, layout, runs
from sharebroker_server.kafka_wire.message_classes import Message, shape
from sharebroker_server.kafka_wire.schema import Field, Struct
from sharebroker_server.kafka_wire.topic_ids import id_text

MOST_ENTRIES: Final = 50_000
"""Entries of all arrays of a message, and tagged fields, together; sixteen numbers count as one.

Kafka knows no limit. Here the largest request that is taken could hold the process up for a minute.
"""


class BadMessage(Exception):
    """The bytes are not what they say they are."""


class Room:
    """How many more entries a message may have."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_ENTRIES


Reader = Callable[[bytes, int, Room], tuple[Any, int]]
"""Takes the bytes and where to begin; gives the value and where it ended.

Raises BadMessage, and what `read_message` makes BadMessage of: struct.error, IndexError, UnicodeDecodeError.
"""


def read_message(reader: Reader, data: bytes, at: int) -> Message:
    """The message that begins at `at`. Raises BadMessage.

    Bytes that follow it are not looked at, as in Kafka.
    """
    try:
        message, _ = reader(data, at, Room())
    except (struct.error, IndexError) as error:
        raise BadMessage("The message ends too early.") from error
    except UnicodeDecodeError as error:
        raise BadMessage("A string is not UTF-8.") from error
    return message  # type: ignore[no-any-return]  # a reader of a struct gives its message


def uvarint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned integer in groups of seven bits, at most five. Raises BadMessage, IndexError."""
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise BadMessage("A variable-length integer has more than five bytes.")


def skip_tags(data: bytes, at: int) -> int:
    """Past tagged fields that nobody here knows. Raises BadMessage, IndexError."""
    return _read_tags(data, at, Room(), {}, None)


@cache
def struct_reader(struct: Struct, version: int, *, flexible: bool) -> Reader:
    """Reads a struct as a version has it."""
    fields = struct.of(version)
    source = Source(f"read_{struct.name}", "data, at, room")
    source.refer(shape(struct), "shape")
    source.refer(object.__new__, "new")
    source.add(["message = new(shape)"])
    form = _Form(source, version, flexible)
    for run in runs(field for field in fields if field.tag is None):
        source.add(form.run(run) if is_fixed(run[0]) else form.field(run[0], f"message.{run[0].name}"))
    if flexible:
        tagged = {
            field.tag: (field.name, _tagged_reader(field, version))
            for field in fields
            if field.tag is not None
        }
        source.refer(_read_tags, "read_tags")
        source.refer(tagged, "tagged")
        source.add(["at = read_tags(data, at, room, tagged, message) if data[at] else at + 1"])
    source.add(["return message, at"])
    return source.function()


def _tagged_reader(field: Field, version: int) -> Reader:
    source = Source("read_field", "data, at, room")
    source.add(_Form(source, version, True).field(field, "value"))
    source.add(["return value, at"])
    return source.function()


class _Form:
    """Writes the lines that read the fields of one version; they move `at` on."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        for value in (nothing, overfull, uvarint, struct.unpack_from):
            source.refer(value, value.__name__)

    def run(self, run: list[Field]) -> Lines:
        """Fields of fixed size with one call."""
        targets = [f"message.{field.name}" for field in run]
        ids = [target for field, target in zip(run, targets, strict=True) if field.type == "uuid"]
        return [*self._unpack(layout(run), ", ".join(targets)), *map(self._as_id, ids)]

    def field(self, field: Field, target: str) -> Lines:
        """One field of any type."""
        nullable = field.is_nullable(self._version)
        if field.array:
            return self._array(field, target, nullable)
        if field.struct is not None and nullable:
            return [
                "at += 1",
                "if data[at - 1] >= 0x80:",  # a negative number
                f"    {target} = None",
                "else:",
                *indented(self._item(field, target)),
            ]
        return self._item(field, target, nullable)

    def _item(self, field: Field, target: str, nullable: bool = False) -> Lines:
        if field.struct is not None:
            reader = struct_reader(field.struct, self._version, flexible=self._flexible)
            return [f"{target}, at = {self._source.refer(reader, 'read_struct')}(data, at, room)"]
        if field.type in FORMATS:
            lines = self._unpack(f">{FORMATS[field.type]}", target)
            return [*lines, self._as_id(target)] if field.type == "uuid" else lines
        convert = ".decode()" if field.type == "string" else ""
        return [
            *self._size("h" if field.type == "string" else "i"),
            "if 0 <= n <= len(data) - at:",
            f"    {target} = data[at : at + n]{convert}",
            "    at += n",
            "else:",
            f"    {target} = nothing(n, len(data) - at, {nullable})",
        ]

    def _array(self, field: Field, target: str, nullable: bool) -> Lines:
        return [
            *self._size("i"),
            "if 0 <= n <= len(data) - at:",
            "    room.left -= n // 16" if _is_number(field) else "    room.left -= n",
            "    if room.left < 0:",
            "        overfull()",
            *indented(self._items(field, target)),
            "else:",
            f"    {target} = nothing(n, len(data) - at, {nullable})",
        ]

    def _items(self, field: Field, target: str) -> Lines:
        if _is_number(field):
            form = FORMATS[field.type]
            return [
                f"{target} = list(unpack_from(f'>{{n}}{form}', data, at))",
                f"at += n * {struct.calcsize(f'>{form}')}",
            ]
        return [
            f"{target} = items = []",
            "for _ in range(n):",
            *indented([*self._item(field, "item"), "items.append(item)"]),
        ]

    def _size(self, classic: str) -> Lines:
        if self._flexible:
            return [
                "n = data[at] - 1",
                "at += 1",
                "if n >= 0x7F:",
                "    n, at = uvarint(data, at - 1)",
                "    n -= 1",
            ]
        return self._unpack(f">{classic}", "n")

    def _unpack(self, layout: str, targets: str) -> Lines:
        compiled = struct.Struct(layout)
        return [
            f"{targets}, = {self._source.refer(compiled.unpack_from, 'unpack')}(data, at)",
            f"at += {compiled.size}",
        ]

    def _as_id(self, target: str) -> str:
        return f"{target} = {self._source.refer(id_text, 'id_text')}({target})"


def _is_number(field: Field) -> bool:
    return field.type in FORMATS and field.type != "uuid"


def nothing(size: int, left: int, nullable: bool) -> None:
    """None where a length stands for it. Raises BadMessage."""
    if size != -1 or not nullable:
        raise BadMessage(f"A length of {size} where {left} bytes are left.")


def overfull() -> NoReturn:
    """Raises BadMessage."""
    raise BadMessage(f"More than {MOST_ENTRIES} entries.")


def _read_tags(
    data: bytes, at: int, room: Room, known: dict[int, tuple[str, Reader]], message: Message | None
) -> int:
    count, at = uvarint(data, at)
    room.left -= count
    if room.left < 0:
        overfull()
    for _ in range(count):
        tag, at = uvarint(data, at)
        size, at = uvarint(data, at)
        end = at + size
        if end > len(data):
            nothing(size, len(data) - at, False)
        if tag in known:
            name, reader = known[tag]
            value, stop = reader(data, at, room)
            setattr(message, name, value)
            if stop != end:
                raise BadMessage(f"The tagged field {name} is not as long as it says.")
        at = end
    return at
