"""Decodes Avro and Arrow values in Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from sharebroker_server.pipeline.core.definition import Definition
from sharebroker_server.pipeline.core.sql import row_type
from sharebroker_spark.values import Decoder, avro_decoder, decoder

_NO_VALUE: Final = "no value"


def decode_function(definition: Definition) -> Any:
    """Returns a function of Spark's on a column of values.

    Its result is a struct: `value`, one row or, for Arrow, an array of rows; and `reason` if it is invalid.
    """
    row, value = row_type(definition), definition.value
    kind = f"ARRAY<{row}>" if value.format == "arrow" else row
    target = to_arrow_type(DataType.fromDDL(kind), timezone="UTC")
    schema = value.avro_schema
    schemas = schema if isinstance(schema, str) else {int(number): text for number, text in schema.items()}

    def make() -> Decoder:
        return avro_decoder(schemas, target) if value_format == "avro" else decoder(value_format, target)

    value_format = value.format
    make()  # reports an invalid schema before tasks run

    def decode(values: pa.Array) -> pa.Array:
        return decoded(values, make)

    return arrow_udf(decode, f"STRUCT<value: {kind}, reason: STRING>")


def decoded(values: pa.Array, make: Callable[[], Decoder]) -> pa.Array:
    """Returns a struct of the decoded value and the reason, one of them null."""
    column, reasons = make()(values)
    found = [reasons.get(index) for index in range(len(values))]
    missing = pc.is_null(values)
    texts = pc.if_else(missing, pa.scalar(_NO_VALUE), pa.array(found, pa.string()))
    return pa.StructArray.from_arrays([column, texts], ["value", "reason"])
