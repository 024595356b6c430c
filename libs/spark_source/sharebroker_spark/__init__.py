"""A Spark data source that reads share groups as planned micro-batches.

`register(spark)` registers `format("sharegroup")` and `format("sharegroup-state")`. If the packages
`pyspark_sharegroup` and `pyspark_sharestate` can be imported, Spark finds the formats without it.
`verdicts(df)` releases or rejects single records of a micro-batch.
"""

from __future__ import annotations

from typing import Any

from sharebroker_spark.core.verdicts import VerdictError
from sharebroker_spark.staging import verdicts

__all__ = ["VerdictError", "register", "verdicts"]


def register(spark: Any) -> None:
    """Registers both formats with a Spark session."""
    from sharebroker_spark.source import ShareGroupDataSource  # needs pyspark, unlike the rest of this module
    from sharebroker_spark.state_source import ShareStateDataSource

    spark.dataSource.register(ShareGroupDataSource)
    spark.dataSource.register(ShareStateDataSource)
