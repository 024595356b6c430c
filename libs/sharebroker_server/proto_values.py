"""Converts between values (named tuples and dataclasses) and protobuf messages with equal fields.

The definitions of both sides decide: fields of equal name are converted. A `Mapped` states what differs, the
name of a field or its type. Fields that only one side has are left out; for those of a value the caller
passes the content. `tests/architecture/test_conversions.py` lists them. A conversion is compiled to
functions that name each field, so it costs no more than code that does.

An optional field of a message that is not set is None in the value, or `absent` if given. A nested message
that is not set is None in any case. A repeated field is a tuple.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from inspect import get_annotations
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from sharebroker_server.codegen import Source, indented

V = TypeVar("V")
M = TypeVar("M", bound=Message)


class Mapped(NamedTuple):
    """A field of a value whose counterpart in the message has another type, and possibly another name.

    `name` is its name there, "" if it is the same. `nested` converts it, or each of its items; otherwise
    `encode` and `decode` convert its content.
    """

    name: str = ""
    nested: Conversion[Any, Any] | None = None
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None


_EQUAL: Final = Mapped()
_NONE: Final[Mapping[str, Mapped | str]] = MappingProxyType({})


class Conversion(Generic[V, M]):
    """Converts a `V` to an `M` and back.

    `mapped` has the fields of `V` that differ, by name: a `Mapped`, or the name in `M` if only that differs.
    """

    def __init__(
        self,
        value: type[V],
        message: type[M],
        mapped: Mapping[str, Mapped | str] = _NONE,
        absent: Any = None,
    ) -> None:
        self.value_type = value
        self.message_type = message
        self._mapped = mapped
        self._absent = absent

    @cached_property
    def fields(self) -> Callable[[V], dict[str, Any]]:
        """Returns the fields of the message for a value, as arguments of the message class."""
        code = Source("fields", "value")
        code.add([f"return {self._literal(code, 'value')}"])
        return code.function()

    @cached_property
    def fill(self) -> Callable[[M, V], None]:
        """Sets the fields of an empty message; costs less than `fields` and the message class."""
        code = Source("fill", "message, value")
        for name, mapped, proto in self._common():
            code.add(self._assignment(code, f"value.{name}", mapped, proto))
        return code.function()

    @cached_property
    def value(self) -> Callable[..., V]:
        """Returns the value of a message; keyword arguments are further fields of the value."""
        code = Source("value", "message, **more")
        found = {name: self._decoded(code, mapped, proto) for name, mapped, proto in self._common()}
        items = [f"{name}={content}" for name, content in found.items()]
        cls = code.refer(self.value_type, "cls")
        if issubclass(self.value_type, tuple):  # positional arguments cost half as much
            names = takewhile(found.__contains__, get_annotations(self.value_type))
            positional = [found[name] for name in names]
            plain = [*positional, *items[len(positional) :]]
            code.add(["if not more:", f"    return {cls}({', '.join(plain)})"])
        code.add([f"return {cls}({', '.join([*items, '**more'])})"])
        return code.function()

    def message(self, value: V, **more: Any) -> M:
        """Returns the message of a value; keyword arguments add fields of the message, or replace them."""
        return self.message_type(**{**self.fields(value), **more})

    def left_out(self) -> set[str]:
        """Returns the fields of the value that the message does not have."""
        return {*self._fields()} - {name for name, _, _ in self._common()}

    def _fields(self) -> Sequence[str]:
        value: Any = self.value_type
        return getattr(value, "_fields", None) or [field.name for field in dataclasses.fields(value)]

    def _common(self) -> Iterator[tuple[str, Mapped, FieldDescriptor]]:
        """Yields the names of the fields that both sides have, with their counterparts."""
        known: Mapping[str, Any] = self.message_type.DESCRIPTOR.fields_by_name
        for name in self._fields():
            mapped = self._mapped.get(name, _EQUAL)
            if isinstance(mapped, str):
                mapped = Mapped(mapped)
            if (proto := known.get(mapped.name or name)) is not None:
                yield name, mapped, proto

    def _literal(self, code: Source, value: str) -> str:
        """The fields of the value with this name in the source, as a dictionary display."""
        items = (
            f"{proto.name!r}: {self._encoded(code, f'{value}.{name}', mapped, proto)}"
            for name, mapped, proto in self._common()
        )
        return f"{{{', '.join(items)}}}"

    def _assignment(self, code: Source, field: str, mapped: Mapped, proto: FieldDescriptor) -> list[str]:
        """The lines that set a field of `message`."""
        target, absent = f"message.{proto.name}", self._absent
        if mapped.nested is not None:
            fill, absent = code.refer(mapped.nested.fill, f"fill_{proto.name}"), None
            lines = [f"{fill}({target}, {field})"]
            if proto.is_repeated:
                return [f"for item in {field}:", f"    {fill}({target}.add(), item)"]
        else:
            encoded = field if mapped.encode is None else f"{code.refer(mapped.encode, 'encode')}({field})"
            lines = [f"{target} = {encoded}"]
            if proto.is_repeated or proto.message_type is not None:
                message = code.refer(self.message_type, "Message")
                lines = [f"message.MergeFrom({message}({proto.name}={encoded}))"]
        if not proto.has_presence:
            return lines
        comparison = "is not" if absent is None else "!="
        return [f"if {field} {comparison} {absent!r}:", *indented(lines)]

    def _encoded(self, code: Source, field: str, mapped: Mapped, proto: FieldDescriptor) -> str:
        function, absent = mapped.encode, self._absent
        if mapped.nested is not None:
            function, absent = mapped.nested.fields, None
            if proto.is_repeated:  # inlined: a call per item would cost as much as its fields
                item = f"{field.replace('.', '_')}_item"
                return f"[{mapped.nested._literal(code, item)} for {item} in {field}]"
        encoded = field if function is None else f"{code.refer(function, f'encode_{proto.name}')}({field})"
        if proto.has_presence and (function is not None or absent is not None):
            comparison = "is" if absent is None else "=="
            return f"None if {field} {comparison} {absent!r} else {encoded}"
        return encoded

    def _decoded(self, code: Source, mapped: Mapped, proto: FieldDescriptor) -> str:
        field = f"message.{proto.name}"
        function, absent = mapped.decode, self._absent
        if mapped.nested is not None:
            function, absent = mapped.nested.value, None
            if proto.is_repeated:
                return f"tuple([{code.refer(function, f'value_{proto.name}')}(item) for item in {field}])"
        decoded = field if function is None else f"{code.refer(function, f'decode_{proto.name}')}({field})"
        if proto.has_presence:
            return f"{decoded} if message.HasField({proto.name!r}) else {absent!r}"
        return decoded
