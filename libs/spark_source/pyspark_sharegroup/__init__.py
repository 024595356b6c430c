"""Spark looks into packages of this name for data sources: nothing has to be registered."""

from __future__ import annotations

from sharebroker_spark.source import ShareGroupDataSource

DefaultSource = ShareGroupDataSource
