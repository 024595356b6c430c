"""Converts between Kafka messages and protobuf messages with equal fields.

The schemas of both sides decide: fields of equal name are copied, at every depth; `renames` names the fields
whose names differ. A conversion is compiled to one function per struct at its first use, so it costs no more
than code that names each field.

Absence differs on the two sides. A Kafka null becomes an unset protobuf field. An unset optional protobuf
field becomes null if the Kafka field is nullable. An empty `error_message` becomes null, since the protos
have no null.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as Proto

from sharebroker_server.kafka_wire.codegen import Source
from sharebroker_server.kafka_wire.message_classes import Message, message_class
from sharebroker_server.kafka_wire.schema import Field

S = TypeVar("S")
T = TypeVar("T")
M = TypeVar("M", bound=Message)
P = TypeVar("P", bound=Proto)

_NO_RENAMES: Final[Mapping[str, str]] = MappingProxyType({})


class Conversion(Generic[S, T]):
    """Converts an `S` to a `T`. Keyword arguments set further fields of the result, or replace copied
    ones.
    """

    __slots__ = ("_compile", "_function")

    def __init__(self, compile_: Callable[[], Callable[..., T]]) -> None:
        self._compile = compile_
        self._function: Callable[..., T] | None = None

    def __call__(self, source: S, **more: Any) -> T:
        """Returns the converted message."""
        if self._function is None:
            self._function = self._compile()
        return self._function(source, more)


def to_proto(
    source: type[M], target: type[P], renames: Mapping[str, str] = _NO_RENAMES, omit: Collection[str] = ()
) -> Conversion[M, P]:
    """Returns the conversion of a Kafka message to a protobuf message.

    `renames` are protobuf field names by Kafka field names, at every depth; fields in `omit` are not copied.
    """
    return Conversion(lambda: _compile_to_proto(source, target, renames, omit))


def from_proto(
    source: type[P], target: type[M], renames: Mapping[str, str] = _NO_RENAMES
) -> Conversion[P, M]:
    """Returns the conversion of a protobuf message to a Kafka message.

    `renames` are protobuf field names by Kafka field names, at every depth.
    """
    return Conversion(lambda: _compile_from_proto(source, target, renames))


def _compile_to_proto(
    source: type[Message], target: type[Any], renames: Mapping[str, str], omit: Collection[str]
) -> Callable[..., Any]:
    code = Source("convert", "message, more={}")
    code.refer(target, "target")
    values = {}
    for field, proto in _common(source, target, renames, omit):
        value = f"message.{field.name}"
        if field.struct is not None:
            nested = _compile_to_proto(message_class(field.struct), _class_of(proto), renames, omit)
            function = code.refer(nested, "convert_struct")
            if field.array:
                value = f"[{function}(item) for item in {value} or ()]"
            else:
                value = f"None if {value} is None else {function}({value})"
        values[proto.name] = value
    copied = ", ".join(f"{name!r}: {value}" for name, value in values.items())
    code.add(
        [
            "if more:",
            f"    return target(**{{{copied}, **more}})",
            f"return target({', '.join(f'{name}={value}' for name, value in values.items())})",
        ]
    )
    return code.function()


def _compile_from_proto(
    source: type[Any], target: type[Message], renames: Mapping[str, str]
) -> Callable[..., Any]:
    code = Source("convert", "proto, more={}")
    code.refer(target, "target")
    code.refer(object.__new__, "new")
    code.refer(target.field_names, "names")
    values = []
    for field, proto in _common(target, source, renames):
        value = f"proto.{proto.name}"
        if field.struct is not None:
            nested = _compile_from_proto(_class_of(proto), message_class(field.struct), renames)
            function = code.refer(nested, "convert_struct")
            value = f"[{function}(item) for item in {value}]" if field.array else f"{function}({value})"
        if field.name == "error_message":
            value = f"{value} or None"
        elif proto.has_presence and field.nullable[0] <= field.nullable[1]:
            value = f"{value} if proto.HasField({proto.name!r}) else None"
        values.append(f"{field.name!r}: {value}")
    code.add(
        [
            "if more and not names.issuperset(more):",
            "    raise TypeError(f'{target.__name__} has no {sorted({*more} - names)}')",
            "message = new(target)",
            f"message.__dict__ = {{{', '.join(values)}, **more}}",
            "return message",
        ]
    )
    return code.function()


def _common(
    kafka: type[Message], proto: type[Any], renames: Mapping[str, str], omit: Collection[str] = ()
) -> list[tuple[Field, FieldDescriptor]]:
    """Returns the fields that both sides have."""
    known = proto.DESCRIPTOR.fields_by_name
    pairs = ((field, known.get(renames.get(field.name, field.name))) for field in kafka.struct.fields)
    return [(field, found) for field, found in pairs if found is not None and field.name not in omit]


def _class_of(field: FieldDescriptor) -> type[Any]:
    assert field.message_type is not None
    return message_factory.GetMessageClass(field.message_type)
