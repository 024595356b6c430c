"""The flights as tables: bronze (the group's records), silver (typed flights, rejected records) and gold."""

from __future__ import annotations

from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import current_timestamp

from sharebroker_server.pipeline.core import sql
from sharebroker_server.pipeline.project import Settings

spark: Any = SparkSession.active()
settings = Settings.of(spark)

_DELIVERY = "topic, partition, offset, timestamp, delivery_count, read_at"
_JUDGED = f"""
    SELECT *, {sql.reason()} AS reason FROM (
      SELECT *, from_json(
        IF(sound, text, NULL), '{sql.RAW_SCHEMA}',
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

_DELAYS = (
    "count(*) AS flights",
    "round(avg(dep_delay), 2) AS departure_minutes",
    "round(avg(arr_delay), 2) AS arrival_minutes",
    "percentile_approx(arr_delay, 0.9) AS arrival_minutes_p90",
    "round(avg(IF(arr_delay > 15, 1.0, 0.0)), 4) AS late_share",
)


@dp.table(comment="Every record that the group received, once.")
def bronze_flights() -> DataFrame:
    """Reads the group; `read_at` is the start of the micro-batch, `lock_deadline` the end of its
    first lock.
    """
    return (
        spark.readStream.format("sharegroup")
        .option("bootstrap", settings.server)
        .option("group", settings.group)
        .option("topics", settings.topic)
        .option("maxRecordsPerTrigger", settings.records_per_trigger)
        .option("onUnavailable", "fail")
        .load()
        .withColumn("read_at", current_timestamp())
    )


@dp.table(comment="Flights that left and arrived.")
def silver_flights() -> DataFrame:
    """One row per flight, delays in minutes."""
    return spark.sql(f"SELECT {_DELIVERY}, {', '.join(sql.typed())} FROM ({_JUDGED}) WHERE reason IS NULL")


@dp.table(comment="Rejected records with the reason.")
def silver_rejected() -> DataFrame:
    """One row per rejected record; `text` contains replacement characters for invalid UTF-8."""
    text = "make_valid_utf8(text) AS text"
    return spark.sql(f"SELECT {_DELIVERY}, {text}, reason FROM ({_JUDGED}) WHERE reason IS NOT NULL")


def _delays(*keys: str) -> DataFrame:
    aggregates = ", ".join(_DELAYS)
    names = ", ".join(keys)
    return spark.sql(f"SELECT {names}, {aggregates} FROM silver_flights GROUP BY {names}")


@dp.materialized_view(comment="Delays by carrier; late is more than 15 minutes.")
def gold_delay_by_carrier() -> DataFrame:
    """One row per carrier."""
    return _delays("carrier")


@dp.materialized_view(comment="Delays by route.")
def gold_delay_by_route() -> DataFrame:
    """One row per pair of airports."""
    return _delays("origin", "dest")


@dp.materialized_view(comment="Delays by the hour of departure.")
def gold_delay_by_hour() -> DataFrame:
    """One row per hour, 0 to 23."""
    return _delays("hour")


@dp.materialized_view(comment="Rejected records by reason, without the values that reasons repeat.")
def gold_rejected() -> DataFrame:
    """One row per kind of reason, with an example."""
    return spark.sql(
        "SELECT split_part(reason, ':', 1) AS reason, count(*) AS records, min(text) AS example "
        "FROM silver_rejected GROUP BY 1"
    )


@dp.materialized_view(comment="Delivery counts of records when the pipeline read them.")
def gold_deliveries() -> DataFrame:
    """One row per delivery count; seconds from publishing to the micro-batch that read the records."""
    seconds = "timestampdiff(MILLISECOND, timestamp, read_at) / 1000D"
    return spark.sql(
        "SELECT topic, delivery_count, count(*) AS records, "
        f"percentile_approx({seconds}, 0.5) AS seconds_p50, "
        f"percentile_approx({seconds}, 0.95) AS seconds_p95, "
        f"max({seconds}) AS seconds_max FROM bronze_flights GROUP BY topic, delivery_count"
    )
