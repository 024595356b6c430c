"""Avro values as Arrow columns, and values that cannot be decoded. JSON and Arrow: test_arrow.py."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.environment import needs_spark, running

pytestmark = [needs_spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with running("value_decoding", tmp_path_factory.mktemp("values") / "run") as program:
        program.wait_for_value("ready")
        return program.reports[-1]


def test_avro_values_have_the_columns_that_are_requested(found: dict[str, Any]) -> None:
    first, second, third, *others = found["rows"]
    assert first == {
        "id": 0, "note": "n0", "at": "1970-01-01 00:00:00+00:00", "tags": [], "absent": None,
    }  # fmt: skip
    assert (second["note"], second["at"]) == (None, "1970-01-01 00:00:01+00:00")
    assert third["tags"] == ["a", "a"]
    assert others == [None] * 5


def test_invalid_avro_has_a_reason(found: dict[str, Any]) -> None:
    reasons = found["reasons"]
    assert reasons[:4] == [None] * 4  # no value is no invalid value
    assert all("not Avro of this schema" in reasons[index] for index in (4, 5, 7))
    assert reasons[6] == "bytes follow the Avro value"


def test_values_are_read_by_the_schema_whose_id_precedes_them(found: dict[str, Any]) -> None:
    missing, unknown = "no schema id precedes the value", "the schema id is unknown: 5"
    assert found["confluent"] == [None, missing, missing, None, unknown, None]
    assert found["framed_ids"] == [0, None, None, 5, None, None]


def test_arrays_of_values_without_bytes_are_refused(found: dict[str, Any]) -> None:
    """A few bytes could contain any number of them."""
    assert all("an array of values without bytes" in text for text in found["empty"])
    assert found["sized"] == [""] * len(found["sized"])


def test_numbers_beyond_their_column_are_invalid(found: dict[str, Any]) -> None:
    assert found["large"][0] is None
    assert "1000" in found["large"][1]


def test_schema_that_is_none_is_refused(found: dict[str, Any]) -> None:
    assert all("the Avro schema is invalid" in text for text in found["refused"])


def test_part_of_a_row_that_must_not_be_null_is_refused(found: dict[str, Any]) -> None:
    assert "declares a NOT NULL" in found["required"]
