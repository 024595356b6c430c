"""Converts between Kafka messages, protobuf messages and records with equal fields.

The schemas of both sides decide: fields of equal name are copied, at every depth; `renames` names the fields
whose names differ. A conversion is compiled to one function per struct at its first use, so it costs no more
than code that names each field.

Absence differs on the two sides. A Kafka null becomes an unset protobuf field. An unset optional protobuf
field becomes null if the Kafka field is nullable. An empty `error_message` becomes null, since the protos
have no null.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as Proto

from sharebroker_server.codegen import Source
from sharebroker_server.kafka_wire.schema import Field, Message, message_class

S = TypeVar("S")
T = TypeVar("T")
M = TypeVar("M", bound=Message)
P = TypeVar("P", bound=Proto)

Renames = Mapping[str, str]
_NO_RENAMES: Final[Renames] = MappingProxyType({})


class MessageConversion(Generic[S, T]):
    """Converts an `S` to a `T`.

    Keyword arguments set further fields of the result, or replace copied ones.
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
    source: type[M], target: type[P], renames: Renames = _NO_RENAMES, omit: Collection[str] = ()
) -> MessageConversion[M, P]:
    """Returns the conversion of a Kafka message to a protobuf message.

    `renames` are protobuf field names by Kafka field names, at every depth; fields in `omit` are not copied.
    """
    return MessageConversion(lambda: _compile_to_proto(source, target, renames, omit))


def to_kafka(
    source: type[S], target: type[M], renames: Renames = _NO_RENAMES, omit: Collection[str] = ()
) -> MessageConversion[S, M]:
    """Returns the conversion of a protobuf message, record or Kafka message to a Kafka message.

    A record is an object of a dataclass or a named tuple; its scalar fields and properties are copied.
    `renames` are field names of the source by Kafka field names, at every depth; fields in `omit` are not
    copied.
    """
    return MessageConversion(lambda: _compile_to_kafka(source, target, renames, omit))


@cache
def topic_conversion(source: Any, target: Any) -> MessageConversion[Any, Any]:
    """Returns the conversion of a topic of a request to one of a response, without its partitions."""
    return to_kafka(source, target, omit=("partitions",))


def _compile_to_proto(
    source: type[Message], target: type[Any], renames: Renames, omit: Collection[str]
) -> Callable[..., Any]:
    code = Source("convert", "message, more={}")
    code.refer(target, "target")
    values = {}
    for field in source.struct.fields:
        proto = target.DESCRIPTOR.fields_by_name.get(renames.get(field.name, field.name))
        if proto is None or field.name in omit:
            continue
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


def _compile_to_kafka(
    source: type[Any], target: type[Message], renames: Renames, omit: Collection[str]
) -> Callable[..., Any]:
    code = Source("convert", "source, more={}")
    code.refer(target, "target")
    code.refer(object.__new__, "new")
    code.refer(target.field_names, "names")
    known = _source_fields(source)
    values = []
    for field in target.struct.fields:
        name = renames.get(field.name, field.name)
        if name not in known or field.name in omit:
            continue
        origin, value = known[name], f"source.{name}"
        if field.struct is not None:
            nested = _compile_to_kafka(_class_of(origin), message_class(field.struct), renames, omit)
            function = code.refer(nested, "convert_struct")
            value = f"[{function}(item) for item in {value}]" if field.array else f"{function}({value})"
        if field.name == "error_message":
            value = f"{value} or None"
        elif getattr(origin, "has_presence", False) and field.nullable[0] <= field.nullable[1]:
            value = f"{value} if source.HasField({name!r}) else None"
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


def _source_fields(source: type[Any]) -> Mapping[str, Any]:
    """Returns the fields of a class by name, each with its descriptor or its type."""
    if issubclass(source, Proto):
        return source.DESCRIPTOR.fields_by_name
    if issubclass(source, Message):
        return {field.name: field for field in source.struct.fields}
    properties = {name: value for name, value in vars(source).items() if isinstance(value, property)}
    return source.__annotations__ | properties


def _class_of(field: Field | FieldDescriptor) -> type[Any]:
    """Returns the class of the messages in a field."""
    if isinstance(field, Field):
        assert field.struct is not None
        return message_class(field.struct)
    assert field.message_type is not None
    return message_factory.GetMessageClass(field.message_type)
