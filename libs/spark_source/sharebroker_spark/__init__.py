"""Spark reads Sharebroker's share groups as exactly planned micro-batches.

`register(spark)` makes `format("sharegroup")` and `format("sharegroup-state")` known; where the packages
`pyspark_sharegroup` and `pyspark_sharestate` can be imported, Spark finds them by itself. `verdicts(df)` says
of single records what becomes of them.
"""

from __future__ import annotations

from typing import Any

from sharebroker_spark.core.verdicts import VerdictError
from sharebroker_spark.staging import verdicts

__all__ = ["VerdictError", "register", "verdicts"]


def register(spark: Any) -> None:
    """Make both formats known to a session."""
    from sharebroker_spark.source import ShareGroupDataSource  # Spark is needed from here on
    from sharebroker_spark.state_source import ShareStateDataSource

    spark.dataSource.register(ShareGroupDataSource)
    spark.dataSource.register(ShareStateDataSource)
