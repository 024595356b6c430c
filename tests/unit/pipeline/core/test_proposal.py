"""Proposed fields of JSON and Avro values, and the files of a proposed project."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.pipeline.core.definition import Definition, DefinitionError
from sharebroker_server.pipeline.core.proposal import (
    avro_fields,
    common_fields,
    group_columns,
    json_fields,
    json_objects,
    project_files,
    schemas_by_id,
    usable,
)


def test_only_json_objects_are_sampled() -> None:
    assert json_objects([b'{"a":1}', b"[1]", b"\xff", None, b"", b"{", b"[" * 100_000]) == [{"a": 1}]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "BIGINT NOT NULL"),
        ([1, 2.5], "DOUBLE NOT NULL"),
        ([True, False], "BOOLEAN NOT NULL"),
        ([True, 1], "STRING NOT NULL"),
        (["a", None], "STRING"),
        ([None, None], "STRING"),
        (["2026-01-31", "2026-02-01"], "DATE NOT NULL"),
        (["2026-01-31", "soon"], "STRING NOT NULL"),
        (["2026-01-31T08:00:00Z", "2026-01-31 08:00:00.123+02:00"], "TIMESTAMP NOT NULL"),
        ([[1, None], []], "ARRAY<BIGINT> NOT NULL"),
        ([[]], "ARRAY<STRING> NOT NULL"),
        ([{"a": 1}, {"a": 2, "b": "x"}], "STRUCT<`a`: BIGINT, `b`: STRING> NOT NULL"),
        ([{}], "STRING NOT NULL"),
        ([1, {"a": 1}], "STRING NOT NULL"),
    ],
)
def test_type_of_a_field_fits_all_its_values(values: list[Any], kind: str) -> None:
    assert json_fields([{"x": value} for value in values]) == {"x": kind}


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "either", "type": ["int", "string"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["A"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 16}},
        {
            "name": "at_home",
            "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "float"}]},
        },
    ],
}


def test_fields_of_an_avro_schema_have_types_of_sparks() -> None:
    assert avro_fields(json.dumps(AVRO)) == {
        "id": "BIGINT NOT NULL",
        "note": "STRING",
        "either": "STRING NOT NULL",
        "day": "DATE NOT NULL",
        "at": "TIMESTAMP NOT NULL",
        "price": "DECIMAL(9, 2) NOT NULL",
        "tags": "ARRAY<STRING> NOT NULL",
        "counts": "MAP<STRING, INT> NOT NULL",
        "state": "STRING NOT NULL",
        "before": "STRING",
        "hash": "BINARY NOT NULL",
        "at_home": "STRUCT<`x`: FLOAT> NOT NULL",
    }


@pytest.mark.parametrize(
    "schema",
    [
        "",
        '"long"',
        '{"fields": [{"name": "a", "type": "absent"}]}',
        '{"fields": [{"name": "a", "type": 3}]}',
        "[]",
    ],
)
def test_schema_without_known_fields_is_refused(schema: str) -> None:
    with pytest.raises(DefinitionError, match="not a record with fields"):
        avro_fields(schema)


FRAMED = [b"\0\0\0\0\7x", b"\0\0\0\0\7", b"{}", b"\0\0\1"]


@pytest.mark.parametrize(
    ("options", "values", "found"),
    [
        ([], [], None),
        (["7=a"], [], {7: "a"}),
        (["7=a", "300=b=c"], FRAMED, {7: "a", 300: "b=c"}),
        (["a"], FRAMED, {7: "a"}),
        (["a"], FRAMED[2:], None),
        (["a"], [*FRAMED, b"\0\0\0\1\0"], None),
        (["a", "7=b"], FRAMED, None),
    ],
)
def test_schemas_have_the_ids_of_the_options_or_of_the_values(
    options: list[str], values: list[bytes], found: dict[int, str] | None
) -> None:
    if found is None:
        with pytest.raises(ValueError, match="--avro-schema ID=FILE"):
            schemas_by_id(options, values, confluent=True)
    else:
        assert schemas_by_id(options, values, confluent=True) == found


def test_without_framing_there_is_one_schema() -> None:
    assert schemas_by_id(["a"], FRAMED, confluent=False) == {0: "a"}
    assert schemas_by_id([], FRAMED, confluent=False) == {}
    with pytest.raises(ValueError, match="need --confluent"):
        schemas_by_id(["1=a", "2=b"], FRAMED, confluent=False)


def test_a_field_is_required_if_each_schema_requires_it() -> None:
    first, second = {"a": "INT NOT NULL", "b": "INT NOT NULL"}, {"a": "BIGINT NOT NULL", "c": "INT NOT NULL"}
    assert common_fields([first, second]) == {"a": "BIGINT NOT NULL", "b": "INT", "c": "INT"}
    assert common_fields([first]) == first


def test_fields_that_cannot_be_columns_are_left_out() -> None:
    names = ["id", "ID", "a`b", "_offset", "\ud800", "x"]
    kept, others = usable(dict.fromkeys(names, "INT"))
    assert (list(kept), others) == (["id", "x"], ["ID", "a`b", "_offset", "\ud800"])


def test_parts_of_a_field_that_sql_cannot_name_are_left_out() -> None:
    objects = json_objects([rb'{"a": {"\ud800": 1, "b": 2, "c`": 3}, "d": {"\n": 1}}'])
    assert json_fields(objects) == {"a": "STRUCT<`b`: BIGINT> NOT NULL", "d": "STRING NOT NULL"}


def test_rows_are_grouped_by_text_with_few_values() -> None:
    objects = [{"state": f"s{number % 3}", "id": f"i{number}", "n": number % 3} for number in range(12)]
    fields = {"state": "STRING NOT NULL", "id": "STRING", "n": "BIGINT"}
    assert group_columns(objects, fields) == ["state"]


def test_proposed_project_is_valid_with_any_content() -> None:
    value = {"format": "json", "fields": {"ship to": "STRING", "amount": "DOUBLE", "state": "STRING"}}
    files = project_files('top"ic', "g\\", value, "ship to")
    document = tomllib.loads(files["pipeline.toml"])
    assert (document["topic"], document["group"]) == ('top"ic', "g\\")
    for table in document["tables"].values():
        table["query"] = files[table.pop("file")]
    definition = Definition.of(document)
    assert definition.value.fields == value["fields"]
    query = definition.tables["gold_by_group"].query
    assert "round(avg(`amount`), 2) AS `mean_amount`" in query
    assert query.endswith("GROUP BY `ship to`")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(max_size=6), JSON, max_size=4), max_size=4))
def test_any_objects_yield_a_valid_project(objects: list[dict[str, Any]]) -> None:
    fields, others = usable(json_fields(objects))
    assert {*fields, *others} == {name for each in objects for name in each}
    if fields:
        files = project_files("t", "g", {"format": "json", "fields": fields}, next(iter(fields)))
        document = tomllib.loads(files["pipeline.toml"])
        for table in document["tables"].values():
            table["query"] = files[table.pop("file")]
        assert Definition.of(document).value.fields == fields
