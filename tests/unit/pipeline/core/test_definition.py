"""Definitions of pipelines: types of fields, and mistakes with their places."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_server.pipeline.core.definition import Definition, DefinitionError, FieldType

VALID: dict[str, Any] = {"topic": "orders", "value": {"fields": {"id": "BIGINT NOT NULL"}}}


@pytest.mark.parametrize(
    ("text", "kind", "required", "nested", "meaning"),
    [
        ("BIGINT", "BIGINT", False, False, "a number"),
        ("decimal(10, 2) not null", "decimal(10, 2)", True, False, "a number"),
        ("DATE  NOT  NULL", "DATE", True, False, "a date"),
        ("ARRAY<STRUCT<a: INT>>", "ARRAY<STRUCT<a: INT>>", False, True, "of type ARRAY<STRUCT<a: INT>>"),
    ],
)
def test_field_has_a_type_of_sparks(text: str, kind: str, required: bool, nested: bool, meaning: str) -> None:
    field = FieldType(text)
    assert (field.kind, field.required, field.nested, field.meaning) == (kind, required, nested, meaning)


@pytest.mark.parametrize("text", ["", "NUMBER", "INT; DROP", "ARRAY", "DECIMAL", "VARCHAR(3)", "NOT NULL"])
def test_unknown_types_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match="is not a type; the types are TINYINT"):
        FieldType(text)


def changed(**changes: Any) -> dict[str, Any]:
    return VALID | changes


def value(**changes: Any) -> dict[str, Any]:
    return {**VALID, "value": VALID["value"] | changes}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "topic: Field required; value: Field required"),
        (changed(topic=" "), "topic: String should have at least 1 character"),
        (changed(colour="red"), "colour: there is no such setting"),
        (value(fields={}), "value.fields: at least one field is needed"),
        (value(fields={"id": "NUMBER"}), "value.fields: id: 'NUMBER' is not a type"),
        (value(fields={"id": "INT", "ID": "INT"}), "value.fields: ID is there twice"),
        (value(fields={"_offset": "INT"}), "every pipeline has a column _offset"),
        (value(fields={"a`b": "INT"}), "'a`b' cannot be the name of a column"),
        (value(format="xml"), "value.format: Input should be 'json', 'avro' or 'arrow'"),
        (value(format="avro"), "format avro needs it, alone"),
        (value(avro_schema="{}"), "format avro needs it, alone"),
        (value(framing="confluent"), "framing is for format avro"),
        (value(format="avro", avro_schema="{}", framing="confluent"), "needs the file of each schema id"),
        (value(format="avro", avro_schema={"7": "{}"}), "without framing avro_schema is one file"),
        (value(format="avro", avro_schema={}, framing="confluent"), "format avro needs it, alone"),
        (value(format="avro", avro_schema={"x": "{}"}, framing="confluent"), "value.avro_schema"),
        (changed(columns={"id": "1"}), "id is there twice"),
        (changed(spark={"executor.memory": "2g"}), "'executor.memory' is no setting of Spark"),
        (changed(spark={"spark.a": "1\nspark.b 2"}), "'spark.a' .* value is more than a line of text"),
        (changed(spark={"spark.master": "local"}), "spark: spark.master is the option --master"),
        (changed(tables={"state_log": {"comment": "c", "query": "q"}}), "every pipeline has state_log"),
        (
            changed(
                tables={"Report_a": {"comment": "c", "query": "q"}},
                report={"A": {"title": "t", "query": "q"}},
            ),
            "every pipeline has report_a; choose another name",
        ),
        (changed(tables={"a-b": {"comment": "c", "query": "q"}}), r"tables.a-b.\[key\]: String should match"),
        (changed(tables={"a": {"comment": "c"}}), "tables.a.query: Field required"),
        (changed(report={"totals": {"title": "t", "query": "q"}}), "every pipeline has totals"),
        (
            changed(report={"a": {"title": "t", "query": "q", "chart": {"kind": "bars", "x": "x", "y": []}}}),
            "report.a.chart.y: 1 to 3 columns can be drawn",
        ),
    ],
)
def test_mistakes_are_named_with_their_places(document: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Definition.of(document)


def test_at_most_five_mistakes_are_named() -> None:
    with pytest.raises(DefinitionError) as failed:
        Definition.of(changed(**{f"setting_{number}": 1 for number in range(9)}))
    assert str(failed.value).count("; ") == 4


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"checks": {"id is negative": "id >= 0"}}, True),
        ({"columns": {"twice": "2 * id"}}, True),
        ({"value": {"fields": {"id": "INT"}}}, True),
        ({"tables": {"a": {"comment": "c", "query": "q"}}}, False),
        ({"spark": {"spark.executor.memory": "2g"}}, False),
    ],
)
def test_rows_depend_on_fields_checks_and_columns(change: dict[str, Any], differs: bool) -> None:
    assert (Definition.of(VALID).rows() != Definition.of(VALID | change).rows()) is differs
