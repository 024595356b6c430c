"""Bronze: the group's records as they came, with the facts of their delivery."""

from __future__ import annotations

from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import current_timestamp

from sharebroker_server.pipeline.settings import Settings

spark: Any = SparkSession.active()
settings = Settings.of(spark)


@dp.table(comment="Every record the group was given, once.")
def bronze_flights() -> DataFrame:
    """`read_at` is when the micro-batch was begun; `lock_deadline` when its first lock would have run out."""
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
