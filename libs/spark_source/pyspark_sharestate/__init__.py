"""Spark looks into packages of this name for data sources: nothing has to be registered."""

from __future__ import annotations

from sharebroker_spark.state_source import ShareStateDataSource

DefaultSource = ShareStateDataSource
