"""Moves a group's records into Parquet, a folder a batch; stands still where the test wants it to."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tests.spark.programs.session import say, session

BOOTSTRAP, TOPIC, GROUP, FOLDER, STOP_AT, STOP_WHEN = sys.argv[1:]
GO = Path(FOLDER) / "go"
spark = session()


def stand_still(number: int, when: str) -> None:
    """At the batch and moment the test asked for: until there is a file `go`."""
    if (str(number), when) == (STOP_AT, STOP_WHEN):
        say(stands=[number, when])
        while not GO.exists():
            time.sleep(0.05)


def work(frame: Any, number: int) -> None:
    stand_still(number, "before")
    frame.write.mode("overwrite").parquet(f"{FOLDER}/out/batch={number}")
    stand_still(number, "after")


query = (
    spark.readStream.format("sharegroup")
    .options(bootstrap=BOOTSTRAP, topics=TOPIC, group=GROUP, maxRecordsPerTrigger="100")
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
    say(failed=str(error))
    sys.exit(1)
rows = spark.read.parquet(f"{FOLDER}/out").select("partition", "offset", "value", "delivery_count").collect()
say(rows=sorted([row.partition, row.offset, row.value, row.delivery_count] for row in rows))
