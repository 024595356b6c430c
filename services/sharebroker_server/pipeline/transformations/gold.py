"""Gold: delays of flights, and deliveries of the records."""

from __future__ import annotations

from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark: Any = SparkSession.active()
_DELAYS = (
    "count(*) AS flights",
    "round(avg(dep_delay), 2) AS departure_minutes",
    "round(avg(arr_delay), 2) AS arrival_minutes",
    "percentile_approx(arr_delay, 0.9) AS arrival_minutes_p90",
    "round(avg(IF(arr_delay > 15, 1.0, 0.0)), 4) AS late_share",
)


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
