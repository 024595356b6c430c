"""Decodes Avro values by their schema, and prints the rows and the reasons; needs no running Spark."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa

from sharebroker_server.pipeline.decoding import decoded
from sharebroker_spark.core.options import OptionError
from sharebroker_spark.values import avro_decoder, decoder
from tests.spark.programs.session import report

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("note", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("absent", pa.int32()),
    ]
)
ROWS = [
    {"id": number, "note": None if number % 2 else f"n{number}", "at": 1000 * number, "tags": ["a"] * number}
    for number in range(3)
]


def written(row: dict[str, Any], schema: dict[str, Any] = SCHEMA) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), row)
    return content.getvalue()


def refused(schema: str, kind: pa.DataType = KIND) -> str:
    try:
        avro_decoder(schema, kind)
    except OptionError as error:
        return str(error)
    return ""


RECORD = {"type": "record", "name": "Part", "fields": [{"name": "none", "type": "null"}]}
EMPTY = [
    "null",
    {"type": "null"},
    RECORD,
    {"type": "fixed", "name": "F", "size": 0},
    {
        **RECORD,
        "fields": [{"name": "r", "type": {**RECORD, "name": "Inner"}}, {"name": "s", "type": "Inner"}],
    },
    {"type": "map", "values": {"type": "array", "items": "null"}},
]
SIZED = [
    ["null"],
    {"type": "map", "values": "null"},
    {"type": "array", "items": ["null", "int"]},
    {**RECORD, "fields": [{"name": "next", "type": ["null", "Part"]}]},
    {**RECORD, "fields": [*RECORD["fields"], {"name": "id", "type": "int"}]},
    {"type": "enum", "name": "E", "symbols": ["A"]},
    {"type": "fixed", "name": "F", "size": 1},
    {"type": "int", "logicalType": "date"},
]


def with_items(items: Any) -> dict[str, Any]:
    """The schema of a record with an array."""
    return {**SCHEMA, "fields": [{"name": "id", "type": {"type": "array", "items": items}}]}


VALUES = [*map(written, ROWS), None, b"", written(ROWS[1])[:-1], written(ROWS[1]) + b"\0", b"\xff" * 40]
plain = avro_decoder(json.dumps(SCHEMA), KIND)(pa.array(VALUES, pa.binary()))
framed: list[bytes | None] = [b"\0\0\0\0\7" + written(ROWS[0]), written(ROWS[1]), b"\0\0"]
SHORT = {**SCHEMA, "fields": SCHEMA["fields"][:1]}
framed += [b"\0\0\0\1\0" + written({"id": 5}, SHORT), b"\0\0\0\0\5" + written(ROWS[0]), None]
schemas = {7: json.dumps(SCHEMA), 256: json.dumps(SHORT)}
confluent = avro_decoder(schemas, KIND)(pa.array(framed, pa.binary()))
narrow = avro_decoder(json.dumps(SCHEMA), pa.struct([("id", pa.int8())]))
large = narrow(pa.array([written(ROWS[0]), written({**ROWS[0], "id": 1000})], pa.binary()))
texts = decoder("json", pa.struct([("id", pa.int64())]))
both = decoded(pa.array([b'{"id": 1}', b"[", None], pa.binary()), lambda: texts)
report(
    rows=json.loads(json.dumps(plain.column.to_pylist(), default=str)),
    reasons=[plain.reasons.get(index) for index in range(len(VALUES))],
    confluent=[confluent.reasons.get(index) for index in range(len(framed))],
    framed_ids=[row and row["id"] for row in confluent.column.to_pylist()],
    empty=[refused(json.dumps(with_items(items))) for items in EMPTY],
    sized=[refused(json.dumps(with_items(items))) for items in SIZED],
    large=[large.reasons.get(index) for index in range(2)],
    both=both.to_pylist(),
    refused=[refused(schema) for schema in ("", "{", '"absent"', "[1]")],
    required=refused(json.dumps(SCHEMA), pa.struct([("id", pa.struct([pa.field("a", pa.int64(), False)]))])),
    ready=True,
)
