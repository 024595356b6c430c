"""Evaluates the stages of projects on given values, and prints the rows of both silver tables."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from sharebroker_server.pipeline.core import sql
from sharebroker_server.pipeline.core.definition import Definition
from sharebroker_server.pipeline.decoding import decode_function
from tests.spark.programs.session import report, session

BRONZE = "topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, delivery_count INT, read_at TIMESTAMP, value BINARY"  # noqa: E501
NOW = datetime(2026, 1, 1, 8, tzinfo=UTC)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    found = [row.asDict(recursive=True) for row in frame.collect()]
    return [json.loads(json.dumps(row, default=_plain)) for row in found]


def _plain(value: object) -> str:
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)


def main() -> None:
    spark = session()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    results = []
    for case in json.loads(Path(sys.argv[1]).read_text()):
        definition = Definition.of(case["project"])
        values = [None if value is None else bytearray.fromhex(value) for value in case["values"]]
        given = [("t", 0, offset, NOW, 1, NOW, value) for offset, value in enumerate(values)]
        frame = spark.createDataFrame(given, BRONZE)
        if definition.value.format != "json":
            frame = frame.select("*", decode_function(definition)("value").alias(sql.DECODED))
        for stage in sql.stages(definition):
            frame = frame.selectExpr(*stage)
        valid, invalid = frame.where("_verdict IS NULL"), frame.where("_verdict IS NOT NULL")
        results.append(
            {
                "silver": rows(valid.selectExpr(*sql.accepted(definition))),
                "rejected": rows(invalid.selectExpr(*sql.rejected(definition))),
            }
        )
    report(results=results)


main()
