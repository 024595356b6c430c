"""Spark reads Sharebroker's share groups as exactly planned micro-batches.

`register(spark)` makes `format("sharegroup")` known; where the package `pyspark_sharegroup` can be imported,
Spark finds it by itself.
"""

from __future__ import annotations

from typing import Any


def register(spark: Any) -> None:
    """Make the format known to a session."""
    from sharebroker_spark.source import ShareGroupDataSource  # Spark is needed from here on

    spark.dataSource.register(ShareGroupDataSource)
