"""Moves a group's records into Parquet, a folder per batch; freezes or dies at the requested moment."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sharebroker_spark.source import ShareGroupDataSource, StreamReader
from tests.spark.programs.session import report, session

ASKED: dict[str, Any] = json.loads(sys.argv[1])
"""`options` of the source, `folder`, and `at`: the batch and the moment to stop at."""
FOLDER, AT = ASKED["folder"], ASKED.get("at", [0, ""])


def wait_at(number: int, when: str) -> None:
    """Waits at the requested batch and moment until there is a file `go`."""
    if [number, when] == AT:
        Path(FOLDER, "stands").write_text(when)
        report(stands=[number, when])
        while not Path(FOLDER, "go").exists():
            time.sleep(0.05)


class Reader(StreamReader):
    """Waits between the plan and Spark's record of it."""

    def latestOffset(self, start: Any, limit: Any) -> Any:
        end = super().latestOffset(start, limit)
        if end != start:
            wait_at(end["n"], "planned")
        return end


class Source(ShareGroupDataSource):
    @classmethod
    def name(cls) -> str:
        return "stalling"

    def streamReader(self, schema: Any) -> Any:
        reader = super().streamReader(schema)
        reader.__class__ = Reader
        return reader


def source_file() -> str:
    """Returns the file from which a task imports the source."""
    import sharebroker_spark.reading

    return str(sharebroker_spark.reading.__file__)


def parent(process: int) -> int:
    (line,) = (x for x in Path(f"/proc/{process}/status").read_text().splitlines() if x.startswith("PPid:"))
    return int(line.split()[1])


def die_once(rows: Iterator[Any]) -> Iterator[Any]:
    """Kills the executor of this task: the parent of Python's daemon process."""
    marker = Path(FOLDER, "killed")
    for some in rows:
        if not marker.exists():
            executor = parent(os.getppid())
            marker.write_text(str(executor))
            os.kill(executor, signal.SIGKILL)
        yield some


def work(frame: Any, number: int) -> None:
    wait_at(number, "before")
    report(places=frame.limit(1).rdd.map(lambda _: source_file()).collect())
    if [number, "executor"] == AT:
        frame = frame.mapInArrow(die_once, frame.schema)
    frame.write.mode("overwrite").parquet(f"{FOLDER}/out/batch={number}")
    wait_at(number, "after")


spark = session()
spark.dataSource.register(Source)
query = (
    spark.readStream.format("stalling")
    .options(**ASKED["options"])
    .option("value.format", "string")
    .load()
    .writeStream.foreachBatch(work)
    .option("checkpointLocation", f"{FOLDER}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
try:
    query.awaitTermination()
except Exception as error:
    report(failed=str(error))
    sys.exit(1)
shown = [json.loads(source.latestOffset) for one in query.recentProgress for source in one.sources]
report(lost=shown[-1]["recordsLost"])
out = Path(FOLDER, "out")
rows = spark.read.parquet(str(out)).select("partition", "offset", "value", "delivery_count").collect()
report(rows=sorted([row.partition, row.offset, row.value, row.delivery_count] for row in rows))
