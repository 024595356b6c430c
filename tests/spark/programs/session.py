"""The functions that the programs share."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession


def session() -> SparkSession:
    """Returns a small Spark session: local, or at SPARK_TEST_MASTER with the files to ship there."""
    spark = (
        SparkSession.builder.master(os.environ.get("SPARK_TEST_MASTER", "local[2]"))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.streaming.metricsEnabled", "false")
        .config("spark.driver.memory", "768m")
        .config("spark.executor.memory", "512m")
        .config("spark.submit.pyFiles", os.environ.get("SPARK_TEST_FILES", ""))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def report(**facts: Any) -> None:
    """Reports facts to the test, on a line of their own."""
    sys.stdout.write("\n" + json.dumps(facts) + "\n")
    sys.stdout.flush()
