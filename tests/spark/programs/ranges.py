"""Reads ranges of logs (TOPIC:FIRST:LAST) like a task, strictly and leniently, without starting Spark."""

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

from sharebroker_spark.arrow import Frame, TaskDelivery
from sharebroker_spark.client import GatewayClient
from sharebroker_spark.core.offsets import Range
from sharebroker_spark.core.options import read_options
from sharebroker_spark.reading import DataLossError, read_ranges
from tests.spark.programs.session import report

ADDRESS, *ASKED = sys.argv[1:]
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


def read(client: GatewayClient, asked: str, deadline_ms: int | None, *, strict: bool) -> list[Any]:
    """Returns offset and value of each record."""
    topic, first, last = asked.split(":")
    options = read_options({"bootstrap": ADDRESS, "topics": topic, "value.format": "string"}, streaming=False)
    frame = Frame(to_arrow_schema(SCHEMA, timezone="UTC"), options)
    ranges = [Range(topic, 0, int(first), int(last), 3)]
    batches = list(
        read_ranges(client, ranges, frame, TaskDelivery(deadline_ms), strict=strict, rejected=lambda _: None)
    )
    return [[row["offset"], row["value"]] for batch in batches for row in batch.to_pylist()]


def read_all(client: GatewayClient, asked: str) -> dict[str, Any]:
    """Returns the range read strictly, leniently, and its committed records."""
    try:
        strict: list[Any] | str = read(client, asked, 1000, strict=True)
    except DataLossError as error:
        strict = str(error)
    return {
        "strict": strict,
        "lenient": read(client, asked, 1000, strict=False),
        "committed": read(client, asked, None, strict=False),
    }


def main() -> None:
    client = GatewayClient(ADDRESS, waits=True)
    report(read=[read_all(client, asked) for asked in ASKED])
    client.close()


main()
