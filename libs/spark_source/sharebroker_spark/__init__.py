"""A Spark data source that reads share groups as planned micro-batches.

`register(spark)` registers the formats `sharegroup`, `sharegroup-state` and `sharegroup-failed`. If the
packages `pyspark_sharegroup`, `pyspark_sharestate` and `pyspark_sharefailed` can be imported, Spark finds the
formats without it.
`verdicts(df)` releases or rejects single records of a micro-batch.
"""

from __future__ import annotations

from typing import Any

from sharebroker_spark.core.verdicts import VerdictError
from sharebroker_spark.staging import verdicts

__all__ = ["VerdictError", "register", "verdicts"]


def register(spark: Any) -> None:
    """Registers the formats with a Spark session."""
    # These need pyspark, unlike the rest of this module.
    from sharebroker_spark.source import ShareGroupDataSource
    from sharebroker_spark.table_sources import FailedRecordsDataSource, ShareStateDataSource

    spark.dataSource.register(ShareGroupDataSource)
    spark.dataSource.register(ShareStateDataSource)
    spark.dataSource.register(FailedRecordsDataSource)
