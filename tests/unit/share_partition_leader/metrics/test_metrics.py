"""The metric families of a leader."""

from __future__ import annotations

from sharebroker_server.record_log.core.schedules import DeliveryLimits
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.share_partition_leader.metrics.metrics import LeaderMetrics
from sharebroker_server.telemetry.metrics import YIELD, lines
from tests.unit.record_log.batches import scheduled
from tests.unit.share_partition_leader.harness import ACCEPT, NAME, TOPIC, Harness

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


async def test_scheduled_and_recalled_records_are_counted(harness: Harness) -> None:
    log = (await harness.leadership.led(TOPIC, 0)).own_log
    log.settings = LogSettings(delivery=DeliveryLimits(86_400_000, -1))
    due = log.now_ms + 60_000
    await log.append(scheduled([due, due, None, due + 1], time=-1))
    for _ in range(2):
        await log.recall(1, harness.leadership.stored_now_ms)
    families = LeaderMetrics(harness.leadership, lambda: 10).families()
    exposed = "".join(line for family in families if "_log_" in family.name for line in lines(family))
    labels = f'{{topic="{NAME}",partition="0"}}'
    assert f"sharebroker_log_scheduled_records_total{labels} 3\n" in exposed
    assert f"sharebroker_log_recalled_records_total{labels} 1\n" in exposed


async def test_offsets_of_checkpoints_in_the_log_of_a_topic(harness: Harness) -> None:
    place = ("topic", "in-log", "partition", "0")
    await harness.create_topic(name="in-log", topic_id="L" * 22, configs={"share.state.storage": "log"})
    await harness.initialize(group="h")
    found = samples(harness)
    assert found["log_earliest_share_offset", place] == 0
    assert found["share_partition_checkpoint_offset", ("group", "g", *place)] == 0
    assert found["share_partition_checkpoint_offset", ("group", "h", *place)] == 1
    assert len([name for name, _ in found if name == "share_partition_checkpoint_offset"]) == 2
    assert len([name for name, _ in samples(harness, limit=1) if name.endswith("checkpoint_offset")]) <= 1


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
