"""Every Kafka metric of share groups has its line in METRICS.md, and every listed metric is served."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.integration.watching.conftest import Watched

TABLE: Final = Path(__file__).parents[3] / "services/METRICS.md"

NAMES: Final = """
RecordAcknowledgementsPerSec PartitionLoadTimeMs RequestTopicPartitionsFetchRatio TopicPartitionsAcquireTimeMs
DeadLetterQueueRecordCount
DeadLetterQueueTotalProduceRequestsPerSec DeadLetterQueueFailedProduceRequestsPerSec
InFlightMessageCount InFlightBatchCount InFlightBatchMessageCount AcquisitionLockTimeoutPerSec
FetchLockTimeMs FetchLockRatio
ShareSessionsCount SharePartitionsCount ShareSessionEvictionsPerSec
ExpiresPerSec DelayedOperationPurgatory
TotalShareFetchRequestsPerSec FailedShareFetchRequestsPerSec
TotalShareAcknowledgementRequestsPerSec FailedShareAcknowledgementRequestsPerSec
group-count share-group-count share-group-rebalance-rate share-group-rebalance-count
write-rate write-total write-latency-avg write-latency-max last-pruned-offset
num-partitions partition-load-time-avg partition-load-time-max thread-idle-ratio event-queue batch-flush
consumer-share-metrics consumer-share-fetch-manager-metrics consumer-share-coordinator-metrics
"""
KAFKA: Final = NAMES.split()


def rows() -> dict[str, str]:
    """Returns Kafka's metric names and their descriptions."""
    cells = (line.strip("| \n").split(" | ", 1) for line in TABLE.read_text().splitlines() if line[:1] == "|")
    return {name.split()[0]: description for name, description in (pair for pair in cells if len(pair) == 2)}


@pytest.mark.parametrize("name", KAFKA)
def test_every_kafka_metric_is_served_or_explained(name: str) -> None:
    description = rows()[name]
    assert "`sharebroker_" in description or description.startswith("None")


async def test_documented_metrics_are_served(watched: Watched) -> None:
    _, text = await watched.ask("/metrics")
    served = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    named = set(re.findall(r"sharebroker_\w+", TABLE.read_text()))
    assert named - served - {f"{name}_{part}" for name in served for part in ("sum", "count")} == set()
    assert set(rows()) - {"Kafka"} == set(KAFKA)
