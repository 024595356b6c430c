"""Makes messages.json: the schemas of Kafka's messages, as kio knows them, in one table for all versions.

`python -m sharebroker_server.kafka_wire.generate` writes it; `--check` fails where it is not current.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args, get_origin

import orjson
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map

TARGET: Final = Path(__file__).parent / "messages.json"

APIS: Final = (
    *(
        0,
        1,
        2,
        3,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25,
        26,
        28,
        32,
        33,
        35,
        37,
        42,
        44,
        47,
    ),
    *(57, 60, 61, 65, 66, 68, 69, 71, 72, 74, 75, 76, 77, 78, 79, 90, 91, 92),
)
"""The keys of the APIs that may be spoken; more are added here."""

_ABSENT: Final = {"datetime_i64": -1, "uuid": MISSING}
"""Defaults of types whose absence is a value on the wire."""

_NAMES: Final = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
"""kio's types of time; here they are plain milliseconds, and their fields' names end in `_ms`."""

Json = dict[str, Any]


def main() -> int:
    """Write or check the table."""
    rows = [b'"%d": %b' % (key, orjson.dumps(_api(key))) for key in APIS]
    content = b"{\n" + b",\n".join(rows) + b"\n}\n"
    if "--check" in sys.argv:
        current = TARGET.read_bytes() == content
        if not current:
            sys.stderr.write(
                "messages.json is not current: run python -m sharebroker_server.kafka_wire.generate\n"
            )
        return 0 if current else 1
    TARGET.write_bytes(content)
    return 0


def _api(key: int) -> Json:
    versions = sorted(schema_name_map[api_key_map[key]])
    requests = {version: load_request_schema(key, version) for version in versions}
    responses = {version: load_response_schema(key, version) for version in versions}
    flexible = [version for version in versions if requests[version].__flexible__]
    return {
        "name": requests[versions[-1]].__name__.removesuffix("Request"),
        "versions": [versions[0], versions[-1]],
        "flexible": min(flexible, default=versions[-1] + 1),
        "request": _struct(requests),
        "response": _struct(responses),
    }


def _struct(classes: dict[int, Any]) -> Json:
    """The fields of a struct over all versions, in an order that is right for each of them."""
    found: dict[int, dict[str, Json]] = {
        version: {field["name"]: field for field in map(_field, fields(cls))}
        for version, cls in classes.items()
    }
    merged: list[Json] = []
    for name in _order([list(found[version]) for version in sorted(found, reverse=True)]):
        seen = {version: known[name] for version, known in found.items() if name in known}
        merged.append(_merge(name, seen))
    return {"name": next(reversed(classes.values())).__name__, "fields": merged}


def _order(lists: list[list[str]]) -> list[str]:
    """One order that contains each list's."""
    order = list(lists[0])
    for names in lists[1:]:
        at = 0
        for name in names:
            if name in order:
                at = order.index(name) + 1
            else:
                order.insert(at, name)
                at += 1
    for names in lists:
        assert [name for name in order if name in names] == names, f"no common order: {lists}"
    return order


def _merge(name: str, seen: dict[int, Json]) -> Json:
    versions = sorted(seen)
    assert versions == list(range(versions[0], versions[-1] + 1)), name
    newest = seen[versions[-1]]
    field: Json = {"name": name, "type": newest["type"], "versions": [versions[0], versions[-1]]}
    nullable = [version for version in versions if seen[version]["nullable"]]
    if nullable:
        field["nullable"] = [nullable[0], nullable[-1]]
    if newest["tag"] is not None:
        field["tag"] = newest["tag"]
    if newest["array"]:
        field["array"] = True
    if newest["default"] is not MISSING:
        field["default"] = newest["default"]
    if newest["class"] is not None:
        field["struct"] = _struct({version: seen[version]["class"] for version in versions})
    return field


def _field(field: Any) -> Json:
    inner, array = field.type, get_origin(field.type) is tuple
    nullable = NoneType in get_args(inner)
    if nullable:
        (inner,) = (arg for arg in get_args(inner) if arg is not NoneType)
        array = get_origin(inner) is tuple
    if array:
        inner = get_args(inner)[0]
        inner = next((arg for arg in get_args(inner) if arg is not NoneType), inner)
    kind = field.metadata.get("kafka_type", "struct")
    if kind == "datetime_i64":  # an absent time is -1 on the wire
        nullable = False
    return {
        "name": f"{field.name}_ms" if kind in _NAMES else field.name,
        "type": _NAMES.get(kind, "int16" if kind == "error_code" else kind),
        "array": array,
        # An id that is absent is all zeros on the wire, not a null.
        "nullable": nullable and kind != "uuid",
        "tag": field.metadata.get("tag"),
        "default": _ABSENT.get(kind, _default(field.default)),
        "class": inner if is_dataclass(inner) else None,
    }


def _default(value: Any) -> Any:
    if isinstance(value, timedelta):
        return int(value.total_seconds() * 1000)
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


if __name__ == "__main__":
    sys.exit(main())
