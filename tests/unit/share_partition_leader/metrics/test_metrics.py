"""The metric families of a leader."""

from __future__ import annotations

from sharebroker_server.share_partition_leader.metrics.metrics import LeaderMetrics
from sharebroker_server.telemetry.metrics import YIELD
from tests.unit.share_partition_leader.harness import ACCEPT, NAME, Harness

LABELS = ("group", "g", "topic", NAME)


def samples(harness: Harness, limit: int = 10) -> dict[tuple[str, tuple[str, ...]], float]:
    families = LeaderMetrics(harness.leadership, lambda: limit).families()
    return {
        (family.name.removeprefix("sharebroker_"), sample.labels): sample.value
        for family in families
        for sample in family.samples
        if sample is not YIELD
    }


async def test_counters_and_gauges_of_a_share_partition(harness: Harness) -> None:
    await harness.publish(10)
    await harness.acquire()
    await harness.acknowledge((2, 4, ACCEPT))
    found = samples(harness)
    assert found["share_group_records_acquired_total", LABELS] == 10
    assert found["share_group_record_acknowledgements_total", (*LABELS, "ack_type", "accept")] == 3
    assert found["share_group_waiting_records_deleted_total", LABELS] == 0
    gauges = (*LABELS, "partition", "0")
    assert found["share_partition_in_flight_messages", gauges] == 10
    assert found["share_partition_in_flight_batches", gauges] == 3
    assert found["share_partition_locked_messages", gauges] == 7
    assert found["led_partitions", ()] == 1
    assert found["log_end_offset", ("topic", NAME, "partition", "0")] == 10


async def test_share_partitions_beyond_the_limit_share_one_row(harness: Harness) -> None:
    await harness.initialize(group="other")
    for group in ("g", "other"):
        await harness.share_partition(group=group)
    found = samples(harness, limit=1)
    rows = [labels for name, labels in found if name == "share_partition_locked_messages"]
    assert sorted(rows) == [
        ("group", "g", "topic", NAME, "partition", "0"),
        ("group", "other", "topic", "other", "partition", "other"),
    ]
