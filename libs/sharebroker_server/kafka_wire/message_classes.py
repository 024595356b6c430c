"""Messages as objects: one class a struct, for all its versions; a field that was not set has its default."""

from __future__ import annotations

from functools import cache
from typing import Any

from sharebroker_server.kafka_wire.schema import Struct, api_schema


class Message:
    """Base of all messages: attributes are the fields of every version, by Kafka's names in snake case.

    Times are milliseconds, ids are Kafka's text of 22 characters ("" for none), errors are their numbers.
    """

    _fields: frozenset[str] = frozenset()

    def __init__(self, **fields: Any) -> None:
        if not self._fields.issuperset(fields):
            raise TypeError(f"{type(self).__name__} has no {sorted({*fields} - self._fields)}")
        self.__dict__ = fields

    def __getattr__(self, name: str) -> Any:
        """Only for fields that no version of the struct has."""
        raise AttributeError(f"{type(self).__name__} has no field {name}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            same(getattr(self, name), getattr(other, name)) for name in self._fields
        )

    __hash__ = None  # type: ignore[assignment]  # its fields may be changed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


class Shapes:
    """The classes of one message and its parts, by the names in Kafka's schemas."""

    def __init__(self, struct: Struct) -> None:
        self._add(struct)

    def __getattr__(self, name: str) -> type[Message]:
        """The class of a struct."""
        raise AttributeError(f"no struct {name}")

    def _add(self, struct: Struct) -> None:
        setattr(self, struct.name, shape(struct))
        for field in struct.fields:
            if field.struct is not None:
                self._add(field.struct)


def request_shapes(key: int) -> Shapes:
    """The classes of an API's request."""
    return Shapes(api_schema(key).request)


def response_shapes(key: int) -> Shapes:
    """The classes of an API's response."""
    return Shapes(api_schema(key).response)


@cache
def shape(struct: Struct) -> type[Message]:
    """The class of a struct."""
    defaults = {field.name: _default(field.default, field.struct) for field in struct.fields}
    return type(struct.name, (Message,), {**defaults, "_fields": frozenset(defaults)})


def same(one: Any, other: Any) -> bool:
    """Whether two values of a field are alike: an array may be any sequence."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _default(value: Any, struct: Struct | None) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if struct is not None and isinstance(value, dict):
        return shape(struct)(**value)
    return value
