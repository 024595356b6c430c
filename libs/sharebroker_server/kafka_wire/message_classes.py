"""Kafka messages as objects.

Each struct of the schemas has one class for all its versions. A field that was not set has its default. The
classes are made from messages.json when they are first needed; `messages.pyi` declares them for type
checkers.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from functools import cache, lru_cache
from typing import Any, ClassVar, Final

from typing_extensions import dataclass_transform

from sharebroker_server.kafka_wire.schema import Struct


@dataclass_transform(kw_only_default=True, eq_default=False)
class Message:
    """Base class of all messages and their structs.

    Attributes are the fields of every version, by Kafka's names in snake case. Times are milliseconds, ids
    are Kafka's text of 22 characters ("" for none), errors are their numbers. The classes of the structs
    inside a message are attributes of the message's class, by Kafka's names.
    """

    struct: ClassVar[Struct]
    field_names: ClassVar[frozenset[str]]

    def __init__(self, **fields: Any) -> None:
        if not self.field_names.issuperset(fields):
            raise TypeError(f"{type(self).__name__} has no {sorted({*fields} - self.field_names)}")
        self.__dict__ = fields

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            equal_values(getattr(self, name), getattr(other, name)) for name in self.field_names
        )

    __hash__ = None  # type: ignore[assignment]  # messages are mutable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


@cache
def message_class(struct: Struct) -> type[Message]:
    """Returns the class of a struct."""
    defaults = {field.name: _default(field.default, field.struct) for field in struct.fields}
    parts = {part.name: message_class(part) for part in struct.descendants()}
    members = {**parts, **defaults, "struct": struct, "field_names": frozenset(defaults)}
    return type(struct.name, (Message,), members)


def equal_values(first: Any, second: Any) -> bool:
    """Returns whether two values of a field are equal; an array may be any sequence."""
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(equal_values, first, second))
    return bool(first == second)


def _default(value: Any, struct: Struct | None) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if struct is not None and isinstance(value, dict):
        return message_class(struct)(**value)
    return value


ZERO: Final = bytes(16)


@lru_cache(4096)
def id_text(raw: bytes) -> str:
    """Returns the text of 16 bytes; "" for zeros."""
    return "" if raw == ZERO else urlsafe_b64encode(raw).rstrip(b"=").decode()


@lru_cache(4096)
def id_bytes(text: str) -> bytes:
    """Returns the 16 bytes of a text; zeros for "". Raises ValueError for a text that is not an id."""
    if not text:
        return ZERO
    raw = b64decode(f"{text}==", b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not an id")
    return raw
