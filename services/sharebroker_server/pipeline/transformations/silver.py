"""Silver: typed flights, and rejected records with the reason."""

from __future__ import annotations

from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from sharebroker_server.pipeline.core import flights

spark: Any = SparkSession.active()
_DELIVERY = "topic, partition, offset, timestamp, delivery_count, read_at"
_JUDGED = f"""
    SELECT *, {flights.reason()} AS reason FROM (
      SELECT *, from_json(
        IF(sound, text, NULL), '{flights.RAW_SCHEMA}',
        map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '_corrupt')
      ) AS raw FROM (
        SELECT *, is_valid_utf8(text) AS sound FROM (
          SELECT *, CAST(value AS STRING) AS text FROM STREAM bronze_flights
        )
      )
    )
"""
"""Bronze with the fields of the value as text, and the reason to reject it.

In SQL, because `readStream.table` reads the table as an earlier run left it and does not wait for bronze.
"""


@dp.table(comment="Flights that left and arrived.")
def silver_flights() -> DataFrame:
    """One row per flight, delays in minutes."""
    return spark.sql(
        f"SELECT {_DELIVERY}, {', '.join(flights.typed())} FROM ({_JUDGED}) WHERE reason IS NULL"
    )


@dp.table(comment="Rejected records with the reason.")
def silver_rejected() -> DataFrame:
    """One row per rejected record; `text` contains replacement characters for invalid UTF-8."""
    text = "make_valid_utf8(text) AS text"
    return spark.sql(f"SELECT {_DELIVERY}, {text}, reason FROM ({_JUDGED}) WHERE reason IS NOT NULL")
