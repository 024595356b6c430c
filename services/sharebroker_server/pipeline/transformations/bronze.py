"""Bronze: the group's records with their delivery metadata."""

from __future__ import annotations

from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import current_timestamp

from sharebroker_server.pipeline.settings import Settings

spark: Any = SparkSession.active()
settings = Settings.of(spark)


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
