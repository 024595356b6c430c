"""Silver: flights with types; what is none stands apart, with the reason."""

from __future__ import annotations

from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, from_json

from services.pipeline.core import flights

spark: Any = SparkSession.active()
_DELIVERY = ("topic", "partition", "offset", "timestamp", "delivery_count", "read_at")


def _judged() -> DataFrame:
    """Bronze, with the fields of the value as text and the reason to reject it."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    return (
        spark.readStream.table("bronze_flights")
        .withColumn("text", col("value").cast("string"))
        .withColumn("sound", expr("is_valid_utf8(text)"))
        .withColumn("raw", from_json(expr("IF(sound, text, NULL)"), flights.RAW_SCHEMA, options))
        .withColumn("reason", expr(flights.reason()))
    )


@dp.table(comment="Flights that left and arrived.")
def silver_flights() -> DataFrame:
    """A row a flight, delays in minutes."""
    return _judged().where("reason IS NULL").selectExpr(*_DELIVERY, *flights.typed())


@dp.table(comment="Records that are no such flight, and why.")
def silver_rejected() -> DataFrame:
    """`text` shows what is not UTF-8 as replacement characters."""
    return (
        _judged()
        .where("reason IS NOT NULL")
        .selectExpr(*_DELIVERY, "make_valid_utf8(text) AS text", "reason")
    )
