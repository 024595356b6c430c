"""Evaluates the pipeline's definitions on given rows, without a pipeline, and prints every table.

The tables that read a server are views of the given rows: `bronze_records`, `state_folded`, `failed_records`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.pipelines import graph_element_registry
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sharebroker_server.pipeline import state_replay
from sharebroker_spark.failed_reading import COLUMNS
from tests.spark.programs.session import report, session

BRONZE = "topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, delivery_count INT, read_at TIMESTAMP, value BINARY"  # noqa: E501
FAILED = ", ".join(f"{name} {kind}" for name, kind in COLUMNS if kind != "timestamp")
Query = Callable[[], DataFrame]


class Definitions:
    """A registry that keeps what modules define, in order: kind and comment by name, and queries."""

    def __init__(self) -> None:
        self.outputs: dict[str, tuple[str, str]] = {}
        self.queries: dict[str, Query] = {}

    def register_output(self, output: Any) -> None:
        self.outputs[output.name] = (type(output).__name__, output.comment)

    def register_flow(self, flow: Any) -> None:
        self.queries[flow.name] = flow.func

    def register_auto_cdc_flow(self, flow: Any) -> None:
        raise AssertionError(flow)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise AssertionError(sql_text)


@contextmanager
def defining(definitions: Definitions) -> Iterator[None]:
    with graph_element_registry.graph_element_registration_context(definitions):
        yield


def time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def bronze_rows(given: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            row["topic"],
            0,
            row["offset"],
            time(row["timestamp"]),
            row["delivery_count"],
            time(row["read_at"]),
            None if row["value"] is None else bytearray.fromhex(row["value"]),
        )
        for row in given
    ]


def view(frame: DataFrame, name: str) -> None:
    """Makes a table of the rows as they are now."""
    frame.cache()
    frame.createOrReplaceTempView(name)


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    spark: SparkSession = session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for name, value in given["settings"].items():
        spark.conf.set(name, value)
    definitions = Definitions()
    with defining(definitions):
        from sharebroker_server.pipeline.transformations import records, state  # noqa: F401
    queries = definitions.queries

    bronze = spark.createDataFrame(bronze_rows(given["bronze"]), BRONZE)
    stored = str(Path(sys.argv[1]).with_name("bronze"))
    bronze.write.parquet(stored)
    spark.readStream.schema(BRONZE).parquet(stored).createOrReplaceTempView("bronze_records")
    for name in ("silver_records", "silver_rejected"):  # which read bronze as a stream
        stream = queries[name]().writeStream.format("memory").queryName(name)
        stream.trigger(availableNow=True).start().awaitTermination()
    view(spark.read.parquet(stored), "bronze_records")

    log = [row | {name: time(row[name]) for name in ("written_at", "not_before")} for row in given["log"]]
    logs = spark.createDataFrame(pa.Table.from_pylist(log, schema=state_replay.LOG))
    schema = from_arrow_schema(state_replay.FOLDED)
    view(logs.groupBy(*state_replay.KEY).applyInArrow(state_replay.folded, schema), "state_folded")
    view(spark.createDataFrame([tuple(row) for row in given["failed"]], FAILED), "failed_records")
    read = ("bronze_records", "silver_records", "silver_rejected", "state_folded", "failed_records")
    for name, query in queries.items():
        if name not in read:
            view(query(), name)
    tables = {name: [row.asDict(recursive=True) for row in spark.table(name).collect()] for name in queries}
    report(outputs=definitions.outputs, tables=json.loads(json.dumps(tables, default=str)))


main()
