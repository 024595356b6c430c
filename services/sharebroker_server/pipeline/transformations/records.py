"""The records as tables: bronze (as received), silver (valid, and rejected), and the project's own."""

from __future__ import annotations

from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import current_timestamp

from sharebroker_server.pipeline.core import sql
from sharebroker_server.pipeline.core.definition import Section, section_view
from sharebroker_server.pipeline.decoding import decode_function
from sharebroker_server.pipeline.settings import Settings
from sharebroker_server.pipeline.shipping import ship_code

spark: Any = SparkSession.active()
settings = Settings.of(spark.conf.get)
definition = settings.definition
ship_code(spark)
decode = None if definition.value.format == "json" else decode_function(definition)


@dp.table(comment="Every record that the group received, once.")
def bronze_records() -> DataFrame:
    """Reads the group; `read_at` is the start of the micro-batch, `lock_deadline` the end of its
    first lock.
    """
    return (
        spark.readStream.format("sharegroup")
        .option("bootstrap", settings.server)
        .option("group", definition.group)
        .option("topics", definition.topic)
        .option("maxRecordsPerTrigger", settings.records_per_trigger)
        .option("onUnavailable", "fail")
        .load()
        .withColumn("read_at", current_timestamp())
    )


def _judged() -> DataFrame:
    """Returns bronze with the fields of the value, and the reason to reject it.

    It begins with SQL, because `readStream.table` reads the table as an earlier run left it and does not wait
    for bronze. Spark analyses `select` later, but some other methods at once.
    """
    frame = spark.sql("SELECT * FROM STREAM bronze_records")
    if decode is not None:
        frame = frame.select("*", decode("value").alias(sql.DECODED))
    for stage in sql.stages(definition):
        frame = frame.selectExpr(*stage)
    return frame


@dp.table(comment="Valid rows.")
def silver_records() -> DataFrame:
    """One row per record, or per row of an Arrow stream; the columns of the delivery begin with `_`."""
    return _judged().where("_verdict IS NULL").selectExpr(*sql.accepted(definition))


@dp.table(comment="Rejected records with the reason.")
def silver_rejected() -> DataFrame:
    """`text` is the value with replacement characters for invalid UTF-8, or in hexadecimal digits."""
    return _judged().where("_verdict IS NOT NULL").selectExpr(*sql.rejected(definition))


def _define(name: str, comment: str, query: str) -> None:
    @dp.materialized_view(name=name, comment=comment)
    def table() -> DataFrame:
        return spark.sql(query)


def _check(name: str, section: Section) -> None:
    """Defines a view that nothing reads: Spark resolves the query and the chart's columns before a run."""
    chart = section.chart
    drawn = (chart.x, *chart.y, *([chart.behind] if chart.behind else [])) if chart else ()

    @dp.temporary_view(name=section_view(name), comment="The columns that a chart of the report draws.")
    def columns() -> DataFrame:
        return spark.sql(section.query).selectExpr(*(map(sql.quoted, dict.fromkeys(drawn))), "1 AS checked")


for name, table in definition.tables.items():
    _define(name, table.comment, table.query)
for name, section in definition.report.items():
    _check(name, section)


@dp.materialized_view(comment="Rejected records by reason, without the values that reasons repeat.")
def gold_rejected() -> DataFrame:
    """One row per kind of reason, with an example."""
    return spark.sql(
        "SELECT split_part(reason, ':', 1) AS reason, count(*) AS records, min(text) AS example "
        "FROM silver_rejected GROUP BY 1"
    )


@dp.materialized_view(comment="Delivery counts of records when the pipeline read them.")
def gold_deliveries() -> DataFrame:
    """One row per delivery count; seconds from publishing to the micro-batch that read the records."""
    seconds = "timestampdiff(MILLISECOND, timestamp, read_at) / 1000D"
    return spark.sql(
        "SELECT topic, delivery_count, count(*) AS records, "
        f"percentile_approx({seconds}, 0.5) AS seconds_p50, "
        f"percentile_approx({seconds}, 0.95) AS seconds_p95, "
        f"max({seconds}) AS seconds_max FROM bronze_records GROUP BY topic, delivery_count"
    )
