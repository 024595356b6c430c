"""The schemas of Kafka's messages: fields, their order on the wire, and their versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

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
    """An API. `versions` are the first and the last; `flexible` is the first with compact lengths and
    tags.
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
    key, part = _messages()[name]
    struct: Struct = getattr(api_schema(key), part)
    return struct


@cache
def _messages() -> dict[str, tuple[int, str]]:
    parts = ("request", "response")
    return {api[part]["name"]: (int(key), part) for key, api in _table().items() for part in parts}


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
