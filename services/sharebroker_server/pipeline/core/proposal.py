"""Proposes a project for a topic: the fields of its values, and files that its user edits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sharebroker_server.pipeline.core.definition import DefinitionError, FieldType, Value, can_be_quoted
from sharebroker_server.pipeline.core.sql import quoted

ARROW_START: Final = b"\xff\xff\xff\xff"
"""The first bytes of an Arrow IPC stream."""
_NUMBERED: Final = re.compile(r"([0-9]{1,10})=(.+)")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?")
_AVRO: Final = {"boolean": "BOOLEAN", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
                "bytes": "BINARY", "fixed": "BINARY", "string": "STRING", "enum": "STRING"}  # fmt: skip
_LOGICAL: Final = {
    "date": "DATE",
    **dict.fromkeys(("timestamp-millis", "timestamp-micros", "timestamp-nanos"), "TIMESTAMP"),
    "uuid": "STRING",
}
_NUMBERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_FEWEST, _MOST = 2, 50
"""A column with this many different values is one to group by."""
_AVERAGED: Final = 3


def json_objects(values: Iterable[bytes | None]) -> list[dict[str, Any]]:
    """Returns the values that are JSON objects."""
    found = []
    for value in values:
        try:
            document = json.loads(value or b"null")
        except (ValueError, RecursionError):  # ValueError also for invalid UTF-8
            continue
        if isinstance(document, dict):
            found.append(document)
    return found


def json_fields(objects: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the type of each field that objects have; NOT NULL if each has a value."""
    names = dict.fromkeys(name for each in objects for name in each)
    fields = {}
    for name in names:
        values = [each[name] for each in objects if each.get(name) is not None]
        fields[name] = _json_type(values) + (" NOT NULL" if len(values) == len(objects) else "")
    return fields


def _json_type(values: Sequence[Any]) -> str:
    """Returns the type of non-null values; text, which every value has, if they differ."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int}:
        return "BIGINT"
    if kinds and kinds <= {int, float}:
        return "DOUBLE"
    if kinds == {str}:
        return _text_type(values)
    if kinds == {list}:
        items = [item for value in values for item in value if item is not None]
        return f"ARRAY<{_json_type(items)}>"
    if kinds == {dict} and (fields := json_fields(values)):
        kept = {name: kind.removesuffix(" NOT NULL") for name, kind in fields.items() if can_be_quoted(name)}
        struct = ", ".join(f"{quoted(name)}: {kind}" for name, kind in kept.items())
        return f"STRUCT<{struct}>" if kept else "STRING"
    return "STRING"


def _text_type(values: Sequence[str]) -> str:
    if all(map(_DATE.fullmatch, values)):
        return "DATE"
    return "TIMESTAMP" if all(map(_TIMESTAMP.fullmatch, values)) else "STRING"


def schemas_by_id(options: Sequence[str], values: Iterable[bytes], *, confluent: bool) -> dict[int, str]:
    """Returns the files of schemas by their ids, of options "FILE" or "ID=FILE".

    An id that is left out is the only one of the values. Without Confluent's framing the one schema has the
    id 0. Raises ValueError.
    """
    if not confluent:
        if len(options) > 1:
            raise ValueError("Several schemas need --confluent: their ids precede the values.")
        return dict.fromkeys([0], options[0]) if options else {}
    if not options:
        raise ValueError("--confluent needs the schema of each schema id: --avro-schema ID=FILE.")
    named = [_NUMBERED.fullmatch(option) for option in options]
    found = {int(each[1]): each[2] for each in named if each}
    if len(found) == len(options):
        return found
    ids = sorted({int.from_bytes(value[1:5]) for value in values if value[:1] == b"\0" and len(value) > 4})
    if len(options) > 1 or len(ids) != 1:
        have = f"the schema ids {', '.join(map(str, ids))}" if ids else "no schema id"
        raise ValueError(
            f"The topic's first values have {have}. Give the file of each with its id: --avro-schema ID=FILE."
        )
    return {ids[0]: options[0]}


def common_fields(fields: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Returns the fields that any of the schemas has; NOT NULL if all of them require a value."""
    merged: dict[str, str] = {}
    for each in fields:
        merged |= each
    required = {name for name in merged if all(each.get(name, "").endswith(" NOT NULL") for each in fields)}
    return {
        name: kind if name in required else kind.removesuffix(" NOT NULL") for name, kind in merged.items()
    }


def avro_fields(schema: str) -> dict[str, str]:
    """Returns the type of each field of an Avro record, from its schema as JSON. Raises DefinitionError."""
    try:
        record = json.loads(schema)
        named: dict[str, str] = {}
        return {field["name"]: _avro_type(field["type"], named) for field in record["fields"]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DefinitionError(f"the Avro schema is not a record with fields: {error!r}") from None


def _avro_type(schema: Any, named: dict[str, str]) -> str:
    """Returns a type with NOT NULL unless null is one of its alternatives; `named` are the types so far."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        kind = _avro_type(others[0], named).removesuffix(" NOT NULL") if len(others) == 1 else "STRING"
        return kind if "null" in schema else f"{kind} NOT NULL"
    if isinstance(schema, str):
        return f"{_AVRO.get(schema) or named[schema]} NOT NULL"
    kind = _avro_complex(schema, named)
    if "name" in schema:
        named[schema["name"]] = kind
    return f"{kind} NOT NULL"


def _avro_complex(schema: Mapping[str, Any], named: dict[str, str]) -> str:
    def inner(part: Any) -> str:
        return _avro_type(part, named).removesuffix(" NOT NULL")

    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({schema['precision']}, {schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    match schema["type"]:
        case "array":
            return f"ARRAY<{inner(schema['items'])}>"
        case "map":
            return f"MAP<STRING, {inner(schema['values'])}>"
        case "record":
            fields = (f"{quoted(field['name'])}: {inner(field['type'])}" for field in schema["fields"])
            return f"STRUCT<{', '.join(fields)}>"
        case kind:
            return inner(kind)


def usable(fields: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Returns the fields that can be columns, and the names of the others."""
    kept: dict[str, str] = {}
    seen = set[str]()
    for name, kind in fields.items():
        try:
            Value.model_validate({"fields": {name: kind}})
        except ValueError:
            continue
        if name.lower() not in seen:
            seen.add(name.lower())
            kept[name] = kind
    return kept, [name for name in fields if name not in kept]


def group_columns(objects: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> list[str]:
    """Returns the text columns with few different values, which rows can be grouped by."""
    found = []
    for name, kind in fields.items():
        values = [each[name] for each in objects if each.get(name) is not None]
        few = _FEWEST <= len(set(map(str, values))) <= min(_MOST, len(values) // 2)
        if FieldType(kind).kind == "STRING" and few:
            found.append(name)
    return found


def project_files(
    topic: str, group: str, value: Mapping[str, Any], grouped: str | None = None
) -> dict[str, str]:
    """Returns the files of a project by path: the definition, a query by hour, and one by a column."""
    fields: Mapping[str, str] = value["fields"]
    parts = [_HEAD.format(topic=_toml(topic), group=_toml(group))]
    settings = [f"{name} = {_setting(item)}\n" for name, item in value.items() if name != "fields"]
    parts += ["[value]\n", *settings, "\n[value.fields]\n"]
    parts += [f"{_key(name)} = {_toml(kind)}\n" for name, kind in fields.items()]
    parts.append(_CHECKS)
    files = {"tables/by_hour.sql": _BY_HOUR}
    if grouped is not None:
        averages = [name for name, kind in fields.items() if kind.startswith(_NUMBERS)][:_AVERAGED]
        selected = [quoted(grouped), "count(*) AS row_count"]
        selected += [f"round(avg({quoted(name)}), 2) AS {quoted(f'mean_{name}')}" for name in averages]
        columns = ",\n  ".join(selected)
        files["tables/by_group.sql"] = (
            f"SELECT\n  {columns}\nFROM silver_records\nGROUP BY {quoted(grouped)}\n"
        )
        parts.append(_GROUPED.format(column=_toml(grouped), title=_toml(f"Rows by {grouped}")))
    return {"pipeline.toml": "".join(parts), **files, ".gitignore": "/data/\n"}


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _toml(name)


def _setting(item: str | Mapping[int, str]) -> str:
    if isinstance(item, str):
        return _toml(item)
    return f"{{ {', '.join(f'{key} = {_toml(text)}' for key, text in item.items())} }}"


def _toml(text: str) -> str:
    """Returns a string of TOML, whose escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


_HEAD: Final = """\
# What the pipeline reads, what a valid row is, and what becomes of the rows.
# `sharebroker pipeline dry-run FOLDER` checks this file, `sharebroker pipeline run FOLDER` reads the topic.
topic = {topic}
group = {group}

"""
_CHECKS: Final = """
# A row is rejected for the first of these reasons whose condition is false. NULL is not false.
[checks]
# "amount is negative" = "amount >= 0"

# Further columns of silver_records, as expressions of Spark's SQL.
[columns]
# day = "DATE(_timestamp)"

# Tables that each run computes. silver_records also has _topic, _partition, _offset, _timestamp,
# _delivery_count and _read_at.
[tables.gold_by_hour]
comment = "Rows by the hour in which they were published."
file = "tables/by_hour.sql"

# Sections of the report. Columns that end with _share or _rate are shown as percentages.
[report.hours]
title = "Rows by hour"
query = "SELECT * FROM gold_by_hour ORDER BY hour"
chart = { kind = "lines", x = "hour", y = ["row_count"], label = "rows" }
"""
_GROUPED: Final = """
[tables.gold_by_group]
comment = "Rows by the values of a column."
file = "tables/by_group.sql"

[report.groups]
title = {title}
query = "SELECT * FROM gold_by_group ORDER BY row_count DESC"
chart = {{ kind = "bars", x = {column}, y = ["row_count"], label = "rows" }}
"""
_BY_HOUR: Final = """\
SELECT date_format(_timestamp, 'yyyy-MM-dd HH:00') AS hour, count(*) AS row_count
FROM silver_records
GROUP BY 1
"""
