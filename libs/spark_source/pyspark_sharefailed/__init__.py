"""Makes the format known to Spark, which finds data sources in packages named `pyspark_*`."""

from __future__ import annotations

from sharebroker_spark.table_sources import FailedRecordsDataSource

DefaultSource = FailedRecordsDataSource
"""`format("sharegroup-failed")`: the failed records of share groups as a table."""
