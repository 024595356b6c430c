"""Spark reads Sharebroker's share groups as exactly planned micro-batches.

`register(spark)` makes `format("sharegroup")` known; where the package `pyspark_sharegroup` can be imported,
Spark finds it by itself. `verdicts(df)` says of single records what becomes of them.
"""

from __future__ import annotations

from typing import Any

from sharebroker_spark.core.verdicts import VerdictError
from sharebroker_spark.staging import verdicts

__all__ = ["VerdictError", "register", "verdicts"]


def register(spark: Any) -> None:
    """Make the format known to a session."""
    from sharebroker_spark.source import ShareGroupDataSource  # Spark is needed from here on

    spark.dataSource.register(ShareGroupDataSource)
