"""Makes the format known to Spark, which finds data sources in packages named `pyspark_*`."""

from __future__ import annotations

from sharebroker_spark.table_sources import ShareStateDataSource

DefaultSource = ShareStateDataSource
