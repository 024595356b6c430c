"""The state log as tables: replayed, compared with the coordinator, and the health of the queues."""

from __future__ import annotations

from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sharebroker_server.pipeline import state_replay
from sharebroker_server.pipeline.core.sql import lookup
from sharebroker_server.pipeline.settings import DEFAULT_LIMIT, Settings
from sharebroker_server.pipeline.shipping import ship_code

spark: Any = SparkSession.active()
settings = Settings.of(spark.conf.get)
ship_code(spark)
_KEY = "`group`, topic, partition"


@dp.materialized_view(comment="Each share-partition's log, its replayed state, and the coordinator's state.")
def state_folded() -> DataFrame:
    """One row per share-partition, as of the end of bronze: `read_before` records.

    `to` declares the columns to Spark, which a definition must not query.
    """
    log = (
        spark.read.format("sharegroup-state")
        .option("bootstrap", settings.server)
        .option("groups", settings.watch)
        .option("topics", settings.definition.topic)
        .load()
        .to(from_arrow_schema(state_replay.LOG))
    )
    folded = log.groupBy(*state_replay.KEY).applyInArrow(
        state_replay.folded, from_arrow_schema(state_replay.FOLDED)
    )
    return folded.crossJoin(spark.sql("SELECT count(*) AS read_before FROM bronze_records"))


@dp.materialized_view(comment="Checkpoints and deltas in the log, and the coordinator's state.")
def state_log() -> DataFrame:
    """One row per run of offsets in a record."""
    return spark.sql(f"SELECT {_KEY}, inline(log) FROM state_folded")


@dp.materialized_view(comment="Differences between the replayed log and the coordinator's state.")
def state_differences() -> DataFrame:
    """One row per difference; empty if log and state agree."""
    return spark.sql(f"SELECT {_KEY}, inline(differences) FROM state_folded")


@dp.materialized_view(comment="Outcome, deliveries and end of each offset in the log.")
def state_history() -> DataFrame:
    """Includes offsets below the start offset. Available ones whose delay has not ended are waiting."""
    return spark.sql(f"""
        WITH outcomes AS (SELECT {_KEY}, inline(history) FROM state_folded)
        SELECT {_KEY}, first_offset, last_offset,
               IF(fate = 'available' AND not_before > current_timestamp(), 'waiting', fate) AS fate,
               delivery_count, finished_at, not_before
        FROM outcomes
    """)


@dp.materialized_view(comment="Failed records, from the journals of the groups.")
def failed_records() -> DataFrame:
    """One row per entry: neighbours that failed together."""
    return (
        spark.read.format("sharegroup-failed")
        .option("bootstrap", settings.server)
        .option("groups", settings.watch)
        .option("topics", settings.definition.topic)
        .load()
    )


@dp.materialized_view(comment="Records that failed or have reached their group's delivery limit.")
def gold_poison() -> DataFrame:
    """One row per run of offsets, with the first record's value if the pipeline read it."""
    limit = lookup(settings.limits, "`group`", DEFAULT_LIMIT)
    return spark.sql(f"""
        WITH poison AS (
          SELECT {_KEY}, first_offset, last_offset, delivery_count, disposition AS why, reason
          FROM failed_records
          UNION ALL
          SELECT {_KEY}, first_offset, last_offset, delivery_count, 'at the delivery limit', NULL
          FROM state_history WHERE fate = 'available' AND delivery_count >= {limit}
        )
        SELECT p.*, left(make_valid_utf8(CAST(b.value AS STRING)), 200) AS value
        FROM poison p LEFT JOIN bronze_records b
          ON p.topic = b.topic AND p.partition = b.partition AND p.first_offset = b.offset
    """)


@dp.materialized_view(comment="Seconds from publishing to acceptance, for records in the log.")
def gold_publish_to_accept() -> DataFrame:
    """One row per group; passed records ended without a recorded outcome, almost all accepted."""
    return spark.sql("""
        WITH ended AS (
          SELECT `group`, topic, partition, finished_at,
                 explode(sequence(first_offset, last_offset)) AS offset
          FROM state_history WHERE finished_at IS NOT NULL AND fate IN ('accepted', 'passed')
        ), timed AS (
          SELECT e.`group`, e.topic,
                 timestampdiff(MILLISECOND, b.timestamp, e.finished_at) / 1000D AS seconds
          FROM ended e JOIN bronze_records b USING (topic, partition, offset)
        )
        SELECT `group`, topic, count(*) AS records, percentile_approx(seconds, 0.5) AS seconds_p50,
               percentile_approx(seconds, 0.95) AS seconds_p95, max(seconds) AS seconds_max
        FROM timed GROUP BY `group`, topic
    """)


@dp.materialized_view(comment="Each group's progress on the topic, from its state log.")
def gold_queue_health() -> DataFrame:
    """Counts of records; deliveries count the records for which the log contains them."""
    size = "(last_offset - first_offset + 1)"
    return spark.sql(f"""
        WITH ranges AS (
          SELECT *, {size} AS records, delivery_count * {size} AS deliveries FROM state_history
        )
        SELECT v.`group`, v.topic, v.share_partitions, v.log_records, v.passed, v.differences,
               coalesce(r.accepted, 0) AS accepted, coalesce(r.archived, 0) AS archived,
               coalesce(r.to_try_again, 0) AS to_try_again,
               round(r.deliveries / r.counted, 4) AS deliveries_per_record,
               round(1 - r.counted / r.deliveries, 4) AS redelivery_rate
        FROM (
          SELECT `group`, topic, count(*) AS share_partitions, sum(records) AS log_records,
                 sum(greatest(coalesce(start_offset, 0), 0)) AS passed, sum(size(differences)) AS differences
          FROM state_folded GROUP BY `group`, topic
        ) v LEFT JOIN (
          SELECT `group`, topic,
                 sum(IF(fate = 'accepted', records, 0)) AS accepted,
                 sum(IF(fate = 'archived', records, 0)) AS archived,
                 sum(IF(fate IN ('available', 'waiting') AND delivery_count > 0, records, 0)) AS to_try_again,
                 sum(IF(delivery_count > 0, records, 0)) AS counted, sum(deliveries) AS deliveries
          FROM ranges GROUP BY `group`, topic
        ) r ON v.`group` = r.`group` AND v.topic = r.topic
    """)
