"""Literals and expressions of Spark's SQL, and the stages from a record to a row."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_server.pipeline.core import sql
from sharebroker_server.pipeline.core.definition import Definition
from sharebroker_server.pipeline.core.sql import literal, lookup


@pytest.mark.parametrize(("text", "expected"), [("a", "'a'"), ("it's", r"'it\'s'"), ("a\\b", r"'a\\b'")])
def test_literal_escapes_quotes_and_backslashes(text: str, expected: str) -> None:
    assert literal(text) == expected


def test_lookup_is_a_case_expression_with_a_default() -> None:
    assert lookup({"b": 2, "a": 1}, "k", 5) == "CASE k WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 5 END"
    assert lookup({}, "k", 5) == "5"


def definition(value_format: str = "json", **changes: Any) -> Definition:
    fields = {"id": "BIGINT NOT NULL", "tag's": "STRING"}
    value = {"format": value_format, "fields": fields} | (
        {"avro_schema": "{}"} if value_format == "avro" else {}
    )
    return Definition.of({"topic": "t", "value": value, **changes})


@pytest.mark.parametrize("value_format", ["json", "avro", "arrow"])
def test_each_stage_names_the_columns_that_later_ones_use(value_format: str) -> None:
    *_, typed, last = sql.stages(definition(value_format))
    assert {"_topic", "_offset", "_text"} < {*typed}
    assert [expression.rpartition(" AS ")[2] for expression in typed][-3:] == ["_reason", "`id`", "`tag's`"]
    assert last == ["*", "coalesce(_reason, CAST(NULL AS STRING)) AS _verdict"]


def test_checks_reject_in_their_order() -> None:
    checks = {"too small": "id > 0", "it's odd": "id % 2 = 0"}
    *_, last = sql.stages(definition(checks=checks))
    cases = "WHEN NOT (id > 0) THEN 'too small' WHEN NOT (id % 2 = 0) THEN 'it\\'s odd'"
    assert last[1] == f"coalesce(_reason, CASE {cases} END) AS _verdict"


def test_required_fields_are_missing_before_others_are_invalid() -> None:
    reason = next(each for each in sql.stages(definition())[1] if each.endswith(" AS _reason"))
    assert reason.index("'id is missing'") < reason.index("'id is not a number: '")
    assert "tag\\'s is not" not in reason  # all values are text


def test_silver_has_fields_and_further_columns() -> None:
    found = sql.accepted(definition(columns={"twice": "2 * id"}))
    assert found[-3:] == ["`id`", "`tag's`", "2 * id AS `twice`"]
    assert "_row" not in found
    assert "_row" in sql.accepted(definition("arrow"))
    assert "_row AS row" in sql.rejected(definition("arrow"))


def test_row_type_is_a_struct_without_constraints() -> None:
    assert sql.row_type(definition()) == "STRUCT<`id`: BIGINT, `tag's`: STRING>"
