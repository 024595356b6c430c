"""Reads a range of a log as a task would, strictly and not, without starting Spark."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sharebroker_spark.client import Client
from sharebroker_spark.core.offsets import Range
from sharebroker_spark.reading import DataLossError, read_ranges
from tests.spark.programs.session import say

ADDRESS, TOPIC, FIRST, LAST = sys.argv[1:]
HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("headers", ArrayType(HEADER)),
        StructField("delivery_count", IntegerType()),
        StructField("lock_deadline", TimestampType()),
    ]
)


def read(client: Client, deadline_ms: int | None, *, strict: bool) -> list[Any]:
    """Offset and value of each record."""
    ranges = [Range(TOPIC, 0, int(FIRST), int(LAST), 3)]
    schema = to_arrow_schema(SCHEMA, timezone="UTC")
    batches = list(read_ranges(client, ranges, schema, deadline_ms, strict=strict))
    return [[row["offset"], row["value"]] for batch in batches for row in batch.to_pylist()]


def main() -> None:
    client = Client(ADDRESS, waits=True)
    try:
        strict: list[Any] | str = read(client, 1000, strict=True)
    except DataLossError as error:
        strict = str(error)
    say(strict=strict)
    say(lenient=read(client, 1000, strict=False))
    say(committed=read(client, None, strict=False))
    client.close()


main()
