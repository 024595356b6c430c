"""Values of each format become rows, or are rejected for the first reason."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.spark.environment import ENVIRONMENT, START_SECONDS, needs_spark, running

pytestmark = [
    needs_spark,
    pytest.mark.slow,
    pytest.mark.timeout(START_SECONDS),
    pytest.mark.xdist_group("spark definitions"),
]

TYPES = {
    "id": "BIGINT NOT NULL",
    "price": "DECIMAL(6, 2)",
    "paid": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP",
    "hash": "BINARY",
    "tags": "ARRAY<STRING>",
    "ship to": "STRUCT<city: STRING, zip: INT>",
}
CHECKS = {"id is negative": "id >= 0", "price is too high": "price < 1000"}
COLUMNS = {"city": "`ship to`.city", "first_tag": "tags[0]"}
FULL = {
    "id": 1,
    "price": 12.5,
    "paid": True,
    "day": "2026-01-31",
    "at": "2026-01-31T08:00:00Z",
    "hash": "AQI=",
    "tags": ["a", None],
    "ship to": {"city": "Köln", "zip": 50667, "more": 1},
    "unknown": 1,
}
INVALID: dict[str, bytes | None] = {
    "no value": None,
    "a zero byte precedes the value, as before a schema id": b'\0\0\0\0\xa7{"id": 1}',
    "not UTF-8": b"\xff",
    "not a JSON object: [1]": b"[1]",
    "id is missing": b"{}",
    "id is not a number: one": b'{"id": "one"}',
    "id is not a number: 1.5": b'{"id": 1.5}',
    "price is not a number: 12345.6": b'{"id": 1, "price": 12345.6}',
    "paid is not true or false: maybe": b'{"id": 1, "paid": "maybe"}',
    "day is not a date: 2026-02-30": b'{"id": 1, "day": "2026-02-30"}',
    "at is not a timestamp: noon": b'{"id": 1, "at": "noon"}',
    "hash is not base64: !": b'{"id": 1, "hash": "!"}',
    "tags is not of type ARRAY<STRING>: a": b'{"id": 1, "tags": "a"}',
    "id is negative": b'{"id": -1, "price": 5000}',
    "price is too high": b'{"id": 1, "price": 5000}',
}
JSON_CASE = {
    "project": {"topic": "t", "value": {"fields": TYPES}, "checks": CHECKS, "columns": COLUMNS},
    "values": [
        json.dumps(FULL).encode().hex(),
        b'{"id": "2"}'.hex(),
        *(None if value is None else value.hex() for value in INVALID.values()),
    ],
}

FIELDS = {"id": "BIGINT NOT NULL", "name": "STRING"}
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": ["null", "long"]}, {"name": "name", "type": "string"}],
}
BINARY = """
import io, json, sys
import fastavro, pyarrow as pa
schema = fastavro.parse_schema(json.loads(sys.argv[1]))
def avro(row):
    content = io.BytesIO()
    fastavro.schemaless_writer(content, schema, row)
    return content.getvalue().hex()
def arrow(**columns):
    content = io.BytesIO()
    table = pa.table(columns)
    with pa.ipc.new_stream(content, table.schema) as stream:
        stream.write_table(table)
    return content.getvalue().hex()
print(json.dumps({
    "avro": [*(avro({"id": id, "name": "a"}) for id in (1, None, -1)), "ff", None],
    "arrow": [arrow(id=[1, None, -1, 4], name=["a", "b", "c", None]),
              arrow(id=pa.array([], pa.int64()), name=pa.array([], pa.string())), arrow(id=[5]), "00", None],
}))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("stages")
    python = str(ENVIRONMENT / "bin" / "python")
    written = subprocess.run([python, "-c", BINARY, json.dumps(SCHEMA)], capture_output=True, check=True)
    values = json.loads(written.stdout)
    checks = {"checks": {"id is negative": "id >= 0"}, "topic": "t"}
    avro = {"format": "avro", "avro_schema": json.dumps(SCHEMA), "fields": FIELDS}
    cases = [
        JSON_CASE,
        {"project": {"value": avro, **checks}, "values": values["avro"]},
        {"project": {"value": {"format": "arrow", "fields": FIELDS}, **checks}, "values": values["arrow"]},
    ]
    given = folder / "given.json"
    given.write_text(json.dumps(cases))
    with running("judging", folder / "run", str(given)) as program:
        found: list[dict[str, Any]] = program.wait_for_value("results")
    return found


def test_json_fields_have_their_types(results: list[dict[str, Any]]) -> None:
    first, second = results[0]["silver"]
    assert {name: first[name] for name in TYPES} == {
        "id": 1,
        "price": "12.50",
        "paid": True,
        "day": "2026-01-31",
        "at": first["at"],
        "hash": "0102",
        "tags": ["a", None],
        "ship to": {"city": "Köln", "zip": 50667},
    }
    assert first["at"].startswith("2026-01-31 ")
    assert (first["city"], first["first_tag"], first["_offset"]) == ("Köln", "a", 0)
    assert (second["id"], second["price"], second["_offset"]) == (2, None, 1)


def test_json_values_are_rejected_for_the_first_reason(results: list[dict[str, Any]]) -> None:
    rejected = results[0]["rejected"]
    assert [row["reason"] for row in rejected] == [*INVALID]
    assert [row["offset"] for row in rejected] == [offset + 2 for offset in range(len(INVALID))]
    assert rejected[2]["text"] == "\ufffd"


def test_avro_values_become_rows_or_are_rejected(results: list[dict[str, Any]]) -> None:
    (row,) = results[1]["silver"]
    assert (row["id"], row["name"], row["_offset"]) == (1, "a", 0)
    reasons = {row["offset"]: row["reason"].partition(":")[0] for row in results[1]["rejected"]}
    assert reasons == {
        1: "id is missing",
        2: "id is negative",
        3: "not Avro of this schema",
        4: "no value",
    }


def test_each_row_of_an_arrow_stream_is_judged(results: list[dict[str, Any]]) -> None:
    silver = [(row["_offset"], row["_row"], row["id"], row["name"]) for row in results[2]["silver"]]
    assert silver == [(0, 0, 1, "a"), (0, 3, 4, None)]
    rejected = [(row["offset"], row["row"], row["reason"]) for row in results[2]["rejected"]]
    assert rejected[:3] == [(0, 1, "id is missing"), (0, 2, "id is negative"), (1, None, "no rows")]
    assert [(offset, row) for offset, row, _ in rejected[3:]] == [(2, None), (3, None), (4, None)]
    assert "name" in rejected[3][2]
    assert rejected[5][2] == "no value"
