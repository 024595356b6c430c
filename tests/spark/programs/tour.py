"""One session through all features of the format; reports the results to the test."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.functions import col, expr, lit, udf

import sharebroker_spark
from tests.spark.programs.session import report, session

SETUP = json.loads(sys.argv[1])
TOPIC, TARGET, FOLDER = SETUP["topic"], SETUP["target"], SETUP["folder"]
SERVER = {"bootstrap": SETUP["bootstrap"]}
JSON = {
    "value.format": "json",
    "value.schema": "id BIGINT, name STRING, at TIMESTAMP, on DATE, tags ARRAY<STRING>",
}
ARROW = {"value.format": "arrow", "value.schema": "id INT, name STRING"}
spark = session()


def rejection(work: Any) -> str:
    """Returns the text of the exception that `work` raises."""
    try:
        work()
    except Exception as error:
        return str(error)
    return ""


def table(topic: str, **options: str) -> Any:
    return spark.read.format("sharegroup").options(**SERVER, topics=topic, **options).load()


def stream(topic: str, group: str, **options: str) -> Any:
    return (
        spark.readStream.format("sharegroup").options(**SERVER, topics=topic, group=group, **options).load()
    )


def run(frame: Any, work: Any, checkpoint: str) -> None:
    """Processes all available records."""
    query = frame.writeStream.foreachBatch(work).option("checkpointLocation", f"{FOLDER}/{checkpoint}")
    query.trigger(availableNow=True).start().awaitTermination()


def show_a_table() -> None:
    """Reads the topic as a table, which acquires nothing."""
    whole = table(TOPIC, recordsPerTask="400")
    report(columns=[f"{field.name} {field.dataType.simpleString()}" for field in whole.schema.fields])
    rows = whole.collect()
    report(
        table=sorted((row.partition, row.offset, bytes(row.value).decode()) for row in rows),
        tasks=whole.rdd.getNumPartitions(),
        unacquired=all(row.delivery_count is None and row.lock_deadline is None for row in rows),
        empty=table(SETUP["empty"]).count(),
        between=table(
            TOPIC,
            startingOffsets=json.dumps({TOPIC: {"0": 398, "1": 0, "2": 0}}),
            endingOffsets=json.dumps({TOPIC: {"1": 2, "2": 0}}),
        ).count(),
    )


def show_a_stream() -> None:
    """Reads the group as a stream, in batches, each read by two actions."""
    batches: list[dict[str, Any]] = []

    def work(frame: Any, number: int) -> None:
        found = frame.collect()
        headers = {(one.key, bytes(one.value).decode()) for row in found for one in row.headers}
        batches.append(
            {
                "records": sorted((row.partition, row.offset, row.value) for row in found),
                "again": frame.count(),
                "counts": sorted({row.delivery_count for row in found}),
                "locked": all(row.lock_deadline > row.timestamp for row in found),
                "headers": sorted(headers),
                "keys": sorted({bytes(row.key).decode() for row in found if row.key is not None}),
            }
        )

    options = {"value.format": "string", "maxRecordsPerTrigger": "500", "recordsPerTask": "200"}
    run(stream(TOPIC, SETUP["group"], **options), work, "first")
    report(batches=batches)
    batches.clear()
    run(stream(TOPIC, SETUP["group"], **options), work, "first")
    report(idle=len(batches))


def show_verdicts() -> None:
    """Runs one stream that fails after rejecting all, and one that overrides that and receives what it
    released.
    """
    seen: list[Any] = []
    judged = stream(SETUP["judged"], SETUP["judges"], verdicts="true")

    def refuse(frame: Any, number: int) -> None:
        rows = frame.limit(1)
        wrong = (
            rows,
            rows.selectExpr("*", "'keep' verdict"),
            rows.selectExpr("*", "'accept' verdict").drop("batch"),
            rows.withColumn("offset", lit(1_000_000).cast("bigint")).selectExpr("*", "'accept' verdict"),
            rows.withColumn("topic", lit("another")).selectExpr("*", "'accept' verdict"),
        )
        report(unsayable=[rejection(lambda rows=rows: sharebroker_spark.verdicts(rows)) for rows in wrong])

    def fail(frame: Any, number: int) -> None:
        readme(2)["work"](frame, number)
        refuse(frame, number)
        sharebroker_spark.verdicts(frame.selectExpr("*", "'reject' verdict"))
        raise RuntimeError("the job fails")

    def judge(frame: Any, number: int) -> None:
        seen.append(sorted((row.offset, row.delivery_count) for row in frame.collect()))
        bad = frame.where("offset % 4 = 1").selectExpr("*", "'Reject' verdict")
        again = frame.where("offset = 0 or delivery_count = 1 and (offset % 4 = 2 or offset = 11)")
        counts = [
            sharebroker_spark.verdicts(rows) for rows in (bad, again.selectExpr("*", "'release' verdict"))
        ]
        report(counts=counts)

    report(failed=rejection(lambda: run(judged, fail, "judged")))
    run(judged, judge, "judged")
    report(judged=seen)


def show_formats() -> None:
    """Reads values that are JSON or Arrow, and invalid ones."""

    def take(frame: Any, number: int) -> None:
        report(taken=sorted(row.offset for row in frame.collect()))
        sharebroker_spark.verdicts(frame.where("offset = 0").selectExpr("*", "'release' verdict"))

    rows = sorted(table(SETUP["json"], **JSON).collect(), key=lambda row: row.offset)
    report(
        json=[
            None if row.value is None else json.loads(json.dumps(row.value.asDict(), default=str))
            for row in rows
        ],
        reasons=[row.rejected_reason for row in rows],
        raw=[None if row.rejected_value is None else bytes(row.rejected_value).hex() for row in rows],
    )
    rejecting = {"onMalformed": "reject", "verdicts": "true", **JSON}
    run(stream(SETUP["json"], SETUP["rejecters"], **rejecting), take, "rejected")
    report(strict=rejection(lambda: table(SETUP["json"], onMalformed="fail", **JSON).collect()))
    streams = [ipc(id=[1, 2], name=["a", None]), b"no stream", ipc(id=[], name=[]), ipc(other=[1]), None]
    values = spark.createDataFrame([(value, 0) for value in streams], "value binary, partition int").coalesce(
        1
    )
    values.write.format("sharegroup").options(**SERVER, topic=SETUP["arrow"]).mode("append").save()
    rows = sorted(table(SETUP["arrow"], **ARROW).collect(), key=lambda row: row.offset)
    report(
        arrow=[None if row.value is None else [list(one) for one in row.value] for row in rows],
        unread=[row.rejected_reason is not None for row in rows],
    )


def ipc(**columns: list[Any]) -> bytes:
    """Returns an Arrow stream of one batch."""
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def show_writing() -> None:
    """Writes rows to a topic, and from a stream to a topic."""
    rows_out = spark.createDataFrame([(f"k{n}", f"out {n}") for n in range(50)], "key string, value string")
    rows_out.write.format("sharegroup").options(**SERVER, topic=TARGET).mode("append").save()
    report(written=table(TARGET).count())
    copied = stream(TOPIC, SETUP["streamers"], maxRecordsPerTrigger="900").select("key", "value", "headers")
    query = copied.writeStream.format("sharegroup").options(**SERVER, topic=SETUP["streamed"])
    query = query.option("transactions", "true")
    query = query.option("checkpointLocation", f"{FOLDER}/copied").trigger(availableNow=True).start()
    query.awaitTermination()
    rows = table(SETUP["streamed"], **{"value.format": "string"}).collect()
    report(
        streamed=sorted(row.value for row in rows),
        streamed_keys=sorted({bytes(row.key).decode() for row in rows}),
        streamed_headers=sum(len(row.headers) for row in rows),
    )


def show_repeated_attempts() -> None:
    """Fails the first attempt of a task at its last row, when most of it is sent."""

    def place(number: int) -> int:
        return 99 if number == 2999 and TaskContext.get().attemptNumber() == 0 else 0

    rows = spark.range(0, 3000, 1, 1).select(
        lit("x" * 1000).alias("value"),
        col("id").cast("string").alias("key"),
        udf(place, "int")("id").alias("partition"),
    )
    for name, transactions in (("once", "true"), ("twice", "false")):
        options = {**SERVER, "topic": SETUP[name], "transactions": transactions}
        rows.write.format("sharegroup").options(**options).mode("append").save()
        keys = [bytes(row.key) for row in table(SETUP[name]).select("key").collect()]
        report(**{name: [len(keys), len(set(keys))]})


def readme(number: int, *names: tuple[str, str]) -> dict[str, Any]:
    """Returns the function that one of its examples defines, with only names replaced."""
    example = Path(SETUP["readme"]).read_text().split("```python\n")[number].partition("```")[0]
    for name, ours in names:
        assert name in example
        example = example.replace(name, ours)
    scope: dict[str, Any] = {}
    exec(example, scope)
    return scope


def show_the_readme() -> None:
    """Runs its first example."""
    query = readme(
        1,
        ("127.0.0.1:9090", SETUP["bootstrap"]),
        ("billing", SETUP["clerks"]),
        ('orders")', f'{SETUP["judged"]}")'),
        ("out/", f"{FOLDER}/readme/"),
    )["query"]
    query.processAllAvailable()
    query.stop()
    report(readme=spark.read.parquet(f"{FOLDER}/readme").count())


def show_refusals() -> None:
    """Checks that invalid options are reported before anything runs."""

    def save(frame: Any, **options: str) -> Any:
        return frame.write.format("sharegroup").options(**SERVER, **options).mode("append").save

    def start() -> None:
        keys = stream(TOPIC, SETUP["group"]).select("key").writeStream.format("sharegroup")
        keys.options(**SERVER, topic=TARGET, checkpointLocation=f"{FOLDER}/keys").start().awaitTermination()

    texts = spark.range(3).select(col("id").cast("string").alias("value"))
    nameless = expr("array(named_struct('key', CAST(NULL AS STRING), 'value', CAST('x' AS BINARY)))")
    report(
        refusals=[
            rejection(
                lambda: stream(TOPIC, "g", maxRecordsPerTrigger="0").writeStream.format("noop").start()
            ),
            rejection(lambda: spark.read.format("sharegroup").options(topics=TOPIC).load()),
            rejection(save(spark.range(3), topic=TARGET)),
            rejection(start),
            rejection(
                lambda: table(
                    TOPIC, **{"value.format": "json", "value.schema": "m MAP<STRING, INT>"}
                ).collect()
            ),
            rejection(
                lambda: table(TOPIC, **{"value.format": "json", "value.schema": "id INT NOT NULL"}).collect()
            ),
            rejection(lambda: table(TOPIC, **{"value.format": "json", "value.schema": "id BIGGINT"})),
            rejection(
                lambda: (
                    spark.read.format("sharegroup")
                    .schema("value STRING")
                    .options(**SERVER, topics=TOPIC)
                    .load()
                    .collect()
                )
            ),
            rejection(
                texts.write.format("sharegroup").options(**SERVER, topic=TARGET).mode("overwrite").save
            ),
            rejection(save(texts.withColumn("headers", nameless), topic=TARGET)),
        ]
    )


def show_refused_streams() -> None:
    """Checks that options invalid for streams are reported before the first batch."""

    def start(options: dict[str, str], trigger: dict[str, Any]) -> None:
        frame = spark.readStream.format("sharegroup").options(**SERVER, topics=TOPIC, **options).load()
        query = frame.writeStream.format("noop").trigger(**trigger).start()
        query.awaitTermination()

    begin, group = {"startingOffsets": "earliest"}, {"group": SETUP["group"]}
    report(
        streams=[
            rejection(lambda: start({}, {"availableNow": True})),
            rejection(lambda: start({**begin, **group}, {"availableNow": True})),
            rejection(lambda: start({**begin, **group}, {"processingTime": "0 seconds"})),
        ],
        absent=rejection(
            lambda: spark.read.format("sharegroup-state").options(**SERVER, groups="absent").load().collect()
        ),
        behind=rejection(lambda: table(TOPIC, endingOffsets=json.dumps({TOPIC: {"0": 401}})).collect()),
    )


def show_state() -> None:
    """Reads the state of the group with verdicts as a table."""
    rows = spark.read.format("sharegroup-state").options(**SERVER, groups=SETUP["judges"]).load()
    shown = ("kind", "position", "first_offset", "last_offset", "delivery_state")
    report(
        state=[
            {name: row[name] for name in shown} | {"written": row.written_at is not None}
            for row in rows.collect()
        ]
    )


def show_failed_records() -> None:
    """Reads the failed records of the same group."""
    rows = spark.read.format("sharegroup-failed").options(**SERVER, groups=SETUP["judges"]).load()
    report(
        failed_records=[
            [row.topic, row.partition, row.first_offset, row.last_offset, row.disposition]
            for row in rows.where("failed_at IS NOT NULL").collect()
        ]
    )


show_a_table()
show_a_stream()
show_verdicts()
show_formats()
show_writing()
show_repeated_attempts()
show_the_readme()
show_refusals()
show_refused_streams()
show_state()
show_failed_records()
spark.stop()
report(done=True)
