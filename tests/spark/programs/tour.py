"""One session through all that the format can do; what came of it is told to the test."""

from __future__ import annotations

import sys
from typing import Any

from tests.spark.programs.session import say, session

BOOTSTRAP, TOPIC, GROUP, TARGET, EMPTY, FOLDER = sys.argv[1:]
SERVER = {"bootstrap": BOOTSTRAP}
READ = {**SERVER, "topics": TOPIC, "group": GROUP}
spark = session()


def refusal(work: Any) -> str:
    """The text of what `work` raises."""
    try:
        work()
    except Exception as error:
        return str(error)
    return ""


# The topic as a table, which takes nothing.
table = spark.read.format("sharegroup").options(**SERVER, topics=TOPIC, recordsPerTask="400").load()
say(columns=[f"{field.name} {field.dataType.simpleString()}" for field in table.schema.fields])
rows = table.collect()
say(
    table=sorted((row.partition, row.offset, bytes(row.value).decode()) for row in rows),
    tasks=table.rdd.getNumPartitions(),
    unacquired=all(row.delivery_count is None and row.lock_deadline is None for row in rows),
)

# The group as a stream, in batches, each read by two actions.
batches: list[dict[str, Any]] = []


def work(frame: Any, number: int) -> None:
    found = frame.collect()
    batches.append(
        {
            "records": sorted((row.partition, row.offset, row.value) for row in found),
            "again": frame.count(),
            "counts": sorted({row.delivery_count for row in found}),
            "locked": all(row.lock_deadline > row.timestamp for row in found),
            "headers": sorted({(one.key, bytes(one.value).decode()) for row in found for one in row.headers}),
            "keys": sorted({bytes(row.key).decode() for row in found if row.key is not None}),
        }
    )


def stream(**options: str) -> Any:
    return (
        spark.readStream.format("sharegroup").options(**READ, **{"value.format": "string"}, **options).load()
    )


def run(checkpoint: str) -> None:
    query = stream(maxRecordsPerTrigger="500", recordsPerTask="200").writeStream.foreachBatch(work)
    query = query.option("checkpointLocation", f"{FOLDER}/{checkpoint}").trigger(availableNow=True).start()
    query.awaitTermination()


run("first")
say(batches=batches)
batches.clear()
run("first")
say(idle=len(batches))

# Rows to a topic, and from a stream to a topic.
rows_out = spark.createDataFrame([(f"k{n}", f"out {n}") for n in range(50)], "key string, value string")
rows_out.write.format("sharegroup").options(**SERVER, topic=TARGET).mode("append").save()
say(written=spark.read.format("sharegroup").options(**SERVER, topics=TARGET).load().count())

say(empty=spark.read.format("sharegroup").options(**SERVER, topics=EMPTY).load().count())

# What cannot be is said before anything runs.
say(
    refusals=[
        refusal(lambda: stream(maxRecordsPerTrigger="0").writeStream.format("noop").start()),
        refusal(lambda: spark.read.format("sharegroup").options(topics=TOPIC).load()),
        refusal(
            lambda: (
                spark.range(3)
                .write.format("sharegroup")
                .options(**SERVER, topic=TARGET)
                .mode("append")
                .save()
            )
        ),
    ]
)
spark.stop()
say(done=True)
