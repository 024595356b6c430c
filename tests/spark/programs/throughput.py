"""Reads topics into nothing by our source and by Spark's Kafka source, in turn, and reports the speed."""

from __future__ import annotations

import glob
import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.programs.session import report

ASKED = json.loads(sys.argv[1])
"""`bootstrap`, `kafka`, `topics` (name, records, tasks), `rounds`, `jars`, `folder`, `group`, `growing`."""

spark = (
    SparkSession.builder.master("local[4]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "2g")
    .config("spark.jars", ",".join(glob.glob(ASKED["jars"] + "/*.jar")))
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
KAFKA = {"kafka.bootstrap.servers": ASKED["kafka"], "includeHeaders": "true"}
OURS = {"bootstrap": ASKED["bootstrap"]}


def ours(topic: str, tasks: int) -> Any:
    options = {**OURS, "recordsPerTask": "1000000", "minPartitions": str(tasks)}
    return spark.read.format("sharegroup").options(**options, topics=topic).load()


def kafka(topic: str) -> Any:
    return spark.read.format("kafka").options(**KAFKA, subscribe=topic, startingOffsets="earliest").load()


def seconds(frame: Any) -> float:
    begun = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def drained(stream: Any, checkpoint: str) -> list[dict[str, float]]:
    """Returns the milliseconds of each trigger that had records, by phase."""
    query = stream.writeStream.format("noop").option("checkpointLocation", f"{ASKED['folder']}/{checkpoint}")
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    return [
        dict(one.durationMs) | {"rows": one.numInputRows} for one in query.recentProgress if one.numInputRows
    ]


for name, records, tasks in ASKED["topics"]:
    assert ours(name, tasks).rdd.getNumPartitions() == tasks, "tasks"
    assert ours(name, tasks).count() == kafka(name).count() == records
    for turn in range(ASKED["rounds"]):
        for system, frame in (("ours", ours(name, tasks)), ("kafka", kafka(name)))[:: 1 if turn % 2 else -1]:
            report(read=[system, name, records / seconds(frame)])
if ASKED["group"]:
    topic = ASKED["topics"][-1][0]
    limit = str(ASKED["per_trigger"])
    stream = spark.readStream.format("sharegroup").options(**OURS, topics=topic, group=ASKED["group"])
    report(triggers=["ours", drained(stream.option("maxRecordsPerTrigger", limit).load(), "ours")])
    stream = spark.readStream.format("kafka").options(**KAFKA, subscribe=topic, startingOffsets="earliest")
    report(triggers=["kafka", drained(stream.option("maxOffsetsPerTrigger", limit).load(), "kafka")])
for topic, group, size in ASKED["growing"]:
    stream = spark.readStream.format("sharegroup").options(**OURS, topics=topic, group=group)
    report(grown=[size, drained(stream.option("maxRecordsPerTrigger", str(size)).load(), topic)])
spark.stop()
report(done=True)
