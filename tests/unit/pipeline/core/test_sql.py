"""Literals and expressions of Spark's SQL, and the rules that reject a flight."""

from __future__ import annotations

import pytest

from sharebroker_server.pipeline.core import sql
from sharebroker_server.pipeline.core.sql import literal, lookup


@pytest.mark.parametrize(("text", "expected"), [("a", "'a'"), ("it's", r"'it\'s'"), ("a\\b", r"'a\\b'")])
def test_literal_escapes_quotes_and_backslashes(text: str, expected: str) -> None:
    assert literal(text) == expected


def test_lookup_is_a_case_expression_with_a_default() -> None:
    assert lookup({"b": 2, "a": 1}, "k", 5) == "CASE k WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 5 END"
    assert lookup({}, "k", 5) == "5"


def test_every_field_of_a_flight_has_a_column() -> None:
    columns = [expression.rpartition(" AS ")[2] for expression in sql.typed()]
    assert columns == [*sql.TEXTS, *sql.NUMBERS, "hour"]
    assert sql.reason().startswith("CASE WHEN text IS NULL THEN 'no value' ")
    assert len(sql.rules()) == sql.reason().count(" WHEN ")
