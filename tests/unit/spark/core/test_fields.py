"""The fields of option `value.schema`."""

from __future__ import annotations

import re

import pytest

from sharebroker_spark.core.options import (
    OptionError,
    read_options,
)

NEEDED = {"bootstrap": "localhost:9090", "group": "g", "topics": "a, b,,a"}


@pytest.mark.parametrize(
    "schema",
    [
        "id BIGINT, name STRING",
        "id:bigint,`odd name`: DECIMAL(10, 2)",
        "a ARRAY<STRUCT<x: INT, m: MAP<STRING, DECIMAL(3,1)>>>, b BOOLEAN NOT NULL",
        "id BIGINT COMMENT 'one, two', name NOTYPE",
        "i INTERVAL DAY TO SECOND, v VARIANT",
        "id BIGINT, ID BIGINT, d DECIMAL, n NUMERIC(38, 38), e DEC(5)",
        "s STRUCT<>, t STRUCT<id: INT, `a,b>`: STRUCT<id: INT>>, u ARRAY",
        "m MAP<STRING, ARRAY<STRUCT<a INT NOT NULL, b: TIMESTAMP_NTZ>>> NOT NULL",
    ],
)
def test_supported_fields_are_accepted(schema: str) -> None:
    options = read_options({**NEEDED, "value.format": "json", "value.schema": schema}, streaming=True)
    assert options.value_schema == schema


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ("id BIGGINT", "id BIGGINT"),
        ("id BIGINT, name", "name"),
        ("id BIGINT,", ""),
        ("n STRING, id STRUCT<a: BLA>", "a: BLA"),
        ("id ARRAY<MAP<STRING, BLA>>", "id ARRAY<MAP<STRING, BLA>>"),
        ("d DECIMAL(99,2)", "d DECIMAL(99,2)"),
        ("s STRUCT<d: DECIMAL(3, 4)>", "d: DECIMAL(3, 4)"),
    ],
)
def test_unsupported_fields_are_rejected(schema: str, field: str) -> None:
    given = {**NEEDED, "value.format": "json", "value.schema": schema}
    with pytest.raises(OptionError, match=rf"option value\.schema has a field .*'{re.escape(field)}'; "):
        read_options(given, streaming=True)


@pytest.mark.parametrize("schema", ["id BIGINT, id STRING", "s STRUCT<id: INT, id: INT>"])
def test_duplicate_field_is_rejected(schema: str) -> None:
    given = {**NEEDED, "value.format": "json", "value.schema": schema}
    with pytest.raises(OptionError, match=r"option value\.schema has .*two fields id; each name"):
        read_options(given, streaming=True)
