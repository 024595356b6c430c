"""The schemas of Kafka's messages: which fields, in which order, in which versions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

_TABLE: Final = Path(__file__).parent / "messages.json"
_EVERY: Final = (-1, 1 << 15)


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field over all versions; `versions` and `nullable` are first and last (none: 1, 0)."""

    name: str
    type: str
    versions: tuple[int, int]
    nullable: tuple[int, int]
    array: bool
    tag: int | None
    default: Any
    struct: Struct | None

    def is_nullable(self, version: int) -> bool:
        """Whether it may be null in a version."""
        return self.nullable[0] <= version <= self.nullable[1]


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """A message or a part of one."""

    name: str
    fields: tuple[Field, ...]

    def of(self, version: int) -> list[Field]:
        """The fields of one version, in the order of the wire."""
        return [field for field in self.fields if field.versions[0] <= version <= field.versions[1]]


@dataclass(frozen=True, slots=True)
class ApiSchema:
    """An API: `versions` are the first and last known, `flexible` the first with compact forms."""

    key: int
    name: str
    versions: tuple[int, int]
    flexible: int
    request: Struct
    response: Struct


@cache
def api_schema(key: int) -> ApiSchema:
    """The schema of an API. Raises KeyError for a key that is not in the table."""
    api = _table()[str(key)]
    first, last = api["versions"]
    return ApiSchema(
        key, api["name"], (first, last), api["flexible"], _struct(api["request"]), _struct(api["response"])
    )


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
        data["default"] if "default" in data else _nothing(data),
        struct,
    )


def _nothing(data: dict[str, Any]) -> Any:
    """What stands for a field that nobody set (Kafka's generated messages: the type's zero)."""
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
    "struct": {},  # one whose fields have their defaults
}
