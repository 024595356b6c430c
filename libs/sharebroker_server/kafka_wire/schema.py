"""The schemas of Kafka's messages, and messages as objects.

A schema lists the fields of a struct, their order on the wire, and their versions. Each struct has one class
for all its versions. A field that was not set has its default. The classes are made from messages.json when
they are first needed; `messages.pyi` declares them for type checkers.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final

import orjson
from typing_extensions import dataclass_transform

_TABLE: Final = Path(__file__).parent / "messages.json"


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field over all versions.

    `versions` and `nullable` are first and last version; (1, 0) means none.
    """

    name: str
    type: str
    versions: tuple[int, int]
    nullable: tuple[int, int]
    array: bool
    tag: int | None
    default: Any
    struct: Struct | None

    def is_nullable(self, version: int) -> bool:
        """Returns whether the field may be null in a version."""
        return self.nullable[0] <= version <= self.nullable[1]


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """A message, or a struct inside one."""

    name: str
    fields: tuple[Field, ...]

    def of(self, version: int) -> list[Field]:
        """Returns the fields of one version, in the order of the wire."""
        return [field for field in self.fields if field.versions[0] <= version <= field.versions[1]]

    def descendants(self) -> Iterator[Struct]:
        """Yields the structs inside this one, at every depth."""
        for field in self.fields:
            if field.struct is not None:
                yield field.struct
                yield from field.struct.descendants()


@dataclass(frozen=True, slots=True)
class ApiSchema:
    """An API. `versions` are the first and the last.

    `flexible` is the first with compact lengths and tags.
    """

    key: int
    name: str
    versions: tuple[int, int]
    flexible: int
    request: Struct
    response: Struct


@cache
def api_schema(key: int) -> ApiSchema:
    """Returns the schema of an API. Raises KeyError for a key that is not in the table."""
    api = _table()[str(key)]
    first, last = api["versions"]
    return ApiSchema(
        key, api["name"], (first, last), api["flexible"], _struct(api["request"]), _struct(api["response"])
    )


def message_struct(name: str) -> Struct:
    """Returns the struct of a request or a response by its name. Raises KeyError for an unknown name."""
    return _messages()[name]


@cache
def _messages() -> dict[str, Struct]:
    apis = [api_schema(int(key)) for key in _table()]
    return {struct.name: struct for api in apis for struct in (api.request, api.response)}


@cache
def _table() -> dict[str, Any]:
    return dict(orjson.loads(_TABLE.read_bytes()))


def _struct(data: dict[str, Any]) -> Struct:
    return Struct(data["name"], tuple(map(_field, data["fields"])))


def _field(data: dict[str, Any]) -> Field:
    struct = _struct(data["struct"]) if "struct" in data else None
    first, last = data["versions"]
    null_first, null_last = data.get("nullable", (1, 0))
    return Field(
        data["name"],
        data["type"],
        (first, last),
        (null_first, null_last),
        data.get("array", False),
        data.get("tag"),
        data["default"] if "default" in data else _zero(data),
        struct,
    )


def _zero(data: dict[str, Any]) -> Any:
    """Returns the value of a field that was not set (as in Kafka's generated messages: the type's zero)."""
    if data.get("array"):
        return ()
    if "nullable" in data and data["type"] != "records":
        return None
    return _ZERO.get(data["type"], 0)


_ZERO: Final[dict[str, Any]] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": "",
    "bool": False,
    "struct": {},  # every field of it has its default
}


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
