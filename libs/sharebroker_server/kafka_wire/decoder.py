"""Reads Kafka's messages from untrusted bytes.

The decoder compares every length with the number of remaining bytes before it allocates anything, and it
bounds the number of entries of a message. A hostile message therefore costs no more memory and time than a
small multiple of a valid one.

`struct_reader` compiles one function per struct and version (see `codegen`). A generated function moves `at`
forward through `data`; the fields of a flexible version end with tagged fields, which `_read_tags` reads.
A function in portions (`pausing_reader`) is a generator with the same lines: it yields after every 1,000
structs, so that its caller can do other work.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Final, NoReturn

from typing_extensions import override

from sharebroker_server.codegen import Lines, Source, indented
from sharebroker_server.kafka_wire.layout import FORMATS, FieldLines, Portion, layout
from sharebroker_server.kafka_wire.schema import Field, Message, Struct, id_text, message_class

MAX_ENTRIES: Final = 50_000
"""Entries of all arrays of a message and its tagged fields together; sixteen numbers count as one entry.

Kafka has no such limit. Without it, one request of the largest size could block this process for a minute.
"""


class BadMessage(Exception):
    """The bytes are not a valid message."""


class EntryBudget:
    """The number of entries that a message may still have."""

    __slots__ = ("remaining",)

    def __init__(self) -> None:
        self.remaining = MAX_ENTRIES


Reader = Callable[[bytes, int, EntryBudget], tuple[Any, int]]
"""Receives the bytes and the index of the first one; returns the value and the index after its last byte.

Raises BadMessage, struct.error, IndexError, UnicodeDecodeError; `read_message` converts them all to
BadMessage.
"""

PausingReader = Callable[[bytes, int, EntryBudget, Portion], Generator[None, None, tuple[Any, int]]]
"""A `Reader` in portions."""

_INVALID: Final = (struct.error, IndexError, UnicodeDecodeError)


def read_message(reader: Reader, data: bytes, at: int) -> Message:
    """Returns the message that begins at `at`. Raises BadMessage.

    Bytes after the message are ignored, as in Kafka.
    """
    try:
        message, _ = reader(data, at, EntryBudget())
    except _INVALID as error:
        raise _bad_message(error) from error
    return message  # type: ignore[no-any-return]  # a struct reader returns a message


def read_in_portions(reader: PausingReader, data: bytes, at: int) -> Generator[None, None, Message]:
    """Returns what `read_message` returns, and yields after each portion. Raises BadMessage."""
    try:
        message, _ = yield from reader(data, at, EntryBudget(), Portion())
    except _INVALID as error:
        raise _bad_message(error) from error
    return message  # type: ignore[no-any-return]  # a struct reader returns a message


def _bad_message(error: Exception) -> BadMessage:
    if isinstance(error, UnicodeDecodeError):
        return BadMessage("A string is not UTF-8.")
    return BadMessage("The message ends too early.")


def uvarint(data: bytes, at: int) -> tuple[int, int]:
    """Reads an unsigned integer in at most five groups of seven bits. Raises BadMessage, IndexError."""
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
    """Returns the index after tagged fields, all of them unknown. Raises BadMessage, IndexError."""
    return _read_tags(data, at, EntryBudget(), {}, None)


@cache
def struct_reader(struct: Struct, version: int, *, flexible: bool) -> Reader:
    """Returns the function that reads a struct in one version."""
    return _compiled(struct, version, flexible, pausing=False)


@cache
def pausing_reader(struct: Struct, version: int, *, flexible: bool) -> PausingReader:
    """Returns the function that reads a struct in one version, in portions."""
    return _compiled(struct, version, flexible, pausing=True)


def _compiled(struct: Struct, version: int, flexible: bool, pausing: bool) -> Callable[..., Any]:
    fields = struct.of(version)
    source = Source(f"read_{struct.name}", f"data, at, budget{', portion' if pausing else ''}")
    source.refer(message_class(struct), "message_class")
    source.refer(object.__new__, "new")
    source.add(["message = new(message_class)"])
    _ReaderLines(source, version, flexible, pausing).add_untagged(fields)
    if flexible:
        tagged = {
            field.tag: (field.name, _tagged_reader(field, version))
            for field in fields
            if field.tag is not None
        }
        source.refer(_read_tags, "read_tags")
        source.refer(tagged, "tagged")
        source.add(["at = read_tags(data, at, budget, tagged, message) if data[at] else at + 1"])
    source.add(["return message, at"])
    return source.function()


def _tagged_reader(field: Field, version: int) -> Reader:
    source = Source("read_field", "data, at, budget")
    source.add(_ReaderLines(source, version, True).field(field, "value"))
    source.add(["return value, at"])
    return source.function()


class _ReaderLines(FieldLines):
    """Generates the lines that read the fields of one version; the lines move `at` forward."""

    def __init__(self, source: Source, version: int, flexible: bool, pausing: bool = False) -> None:
        super().__init__(source, version, flexible, pausing)
        for value in (read_null, raise_too_many, uvarint, struct.unpack_from):
            source.refer(value, value.__name__)

    @override
    def run(self, run: list[Field]) -> Lines:
        targets = [f"message.{field.name}" for field in run]
        ids = [target for field, target in zip(run, targets, strict=True) if field.type == "uuid"]
        return [*self._unpack(layout(run), ", ".join(targets)), *map(self._as_id, ids)]

    @override
    def field(self, field: Field, target: str) -> Lines:
        nullable = field.is_nullable(self._version)
        if field.array:
            return self._array(field, target, nullable)
        if field.struct is not None and nullable:
            return [
                "at += 1",
                "if data[at - 1] >= 0x80:",  # a negative number: null
                f"    {target} = None",
                "else:",
                *indented(self._item(field, target)),
            ]
        return self._item(field, target, nullable)

    def _item(self, field: Field, target: str, nullable: bool = False) -> Lines:
        if field.struct is not None and self.pauses_in(field):
            pausing = pausing_reader(field.struct, self._version, flexible=self._flexible)
            name = self._source.refer(pausing, "read_in_portions")
            return [f"{target}, at = yield from {name}(data, at, budget, portion)"]
        if field.struct is not None:
            reader = struct_reader(field.struct, self._version, flexible=self._flexible)
            return [f"{target}, at = {self._source.refer(reader, 'read_struct')}(data, at, budget)"]
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
            f"    {target} = read_null(n, len(data) - at, {nullable})",
        ]

    def _array(self, field: Field, target: str, nullable: bool) -> Lines:
        return [
            *self._size("i"),
            "if 0 <= n <= len(data) - at:",
            "    budget.remaining -= n // 16" if _is_number(field) else "    budget.remaining -= n",
            "    if budget.remaining < 0:",
            "        raise_too_many()",
            *indented(self._items(field, target)),
            "else:",
            f"    {target} = read_null(n, len(data) - at, {nullable})",
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
            *indented([*self._item(field, "item"), "items.append(item)", *self.pause(field)]),
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


def read_null(size: int, remaining: int, nullable: bool) -> None:
    """Returns None for the length that means null. Raises BadMessage for any other invalid length."""
    if size != -1 or not nullable:
        raise BadMessage(f"A length of {size} with {remaining} bytes remaining.")


def raise_too_many() -> NoReturn:
    """Raises BadMessage: the message has too many entries."""
    raise BadMessage(f"More than {MAX_ENTRIES} entries.")


def _read_tags(
    data: bytes, at: int, budget: EntryBudget, known: dict[int, tuple[str, Reader]], message: Message | None
) -> int:
    count, at = uvarint(data, at)
    budget.remaining -= count
    if budget.remaining < 0:
        raise_too_many()
    for _ in range(count):
        tag, at = uvarint(data, at)
        size, at = uvarint(data, at)
        end = at + size
        if end > len(data):
            read_null(size, len(data) - at, False)
        if tag in known:
            name, reader = known[tag]
            value, stop = reader(data, at, budget)
            setattr(message, name, value)
            if stop != end:
                raise BadMessage(f"The tagged field {name} has another length than it declares.")
        at = end
    return at
