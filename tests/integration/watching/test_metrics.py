"""Metrics of real work by a real process, read by Prometheus's own parser."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from tests.integration.watching.conftest import Watched
from tests.support.client import ACCEPT, REJECT, RELEASE, Client, connected, rejection, unique
from tests.testkit.waiting import eventually

_BACKLOG = ("lag", "oldest_unaccepted_seconds")


@pytest.fixture
async def client(watched: Watched) -> AsyncIterator[Client]:
    async with connected(watched.serve.address) as client:
        yield client


async def test_metrics_count_published_and_acknowledged_records(watched: Watched, client: Client) -> None:
    topic, _ = await client.create()
    group = await client.group(share_delivery_count_limit="2")
    await client.publish(topic, "abcdef")
    records = await client.acquire_all(group, topic, 6, "m")
    await client.acknowledge(group, "m", records[:1], ACCEPT)
    await client.acknowledge(group, "m", records[1:3], REJECT)
    await client.acknowledge(group, "m", records[3:4], RELEASE)
    again = await client.acquire_all(group, topic, 1, "m")
    await client.acknowledge(group, "m", again, RELEASE)  # its last delivery
    metrics = await watched.metrics()

    def counted(name: str, **labels: str) -> float | None:
        return metrics.of(f"share_group_{name}_total", group=group, topic=topic, **labels)

    assert counted("records_acquired") == 7
    assert counted("records_redelivered") == 1
    assert counted("record_acknowledgements", ack_type="accept") == 1
    assert counted("record_acknowledgements", ack_type="reject") == 2
    assert counted("record_acknowledgements", ack_type="release") == 2
    assert counted("records_archived", reason="rejected") == 2
    assert counted("records_archived", reason="attempts") == 1
    assert metrics.of("log_end_offset", topic=topic, partition="0") == 6
    asked, found = counted("fetch_partitions"), counted("fetch_partitions_with_records")
    assert asked is not None
    assert found is not None
    assert 2 <= found <= asked


async def test_lock_timeouts_are_counted(watched: Watched, client: Client) -> None:
    topic, _ = await client.create()
    group = await client.group(share_record_lock_duration_ms="1000")
    await client.publish(topic, "ab")
    await client.acquire_all(group, topic, 2, "m")
    timeouts = "share_group_acquisition_lock_timeouts_total"

    async def ran_out() -> bool:
        return (await watched.metrics()).of(timeouts, group=group, topic=topic) == 2

    await eventually(ran_out, 60)


async def test_lag_is_exported_after_the_members_left(watched: Watched, client: Client) -> None:
    topic, _ = await client.create()
    group = await client.group()
    await client.publish(topic, "abcdef")
    held = await client.acquire_all(group, topic, 4, "m")
    place = {"group": group, "topic": topic, "partition": "0"}

    async def lag(wanted: int) -> bool:
        return (await watched.metrics()).of("share_group_lag", **place) == wanted

    async def age() -> float:
        return (await watched.metrics()).of("share_group_oldest_unaccepted_seconds", **place) or 0.0

    metrics = await watched.metrics()
    assert metrics.of("share_partition_locked_messages", **place) == 4
    assert metrics.of("share_partition_in_flight_messages", **place) == 4
    assert metrics.of("share_partition_in_flight_batch_messages", **place) == 4
    await eventually(lambda: lag(6), 60)  # before anything of the group is written
    assert 0 < await age() < 600
    await client.acknowledge(group, "m", held[:1])
    await eventually(lambda: lag(5), 60)
    await client.acknowledge(group, "m", held[1:])
    await eventually(lambda: lag(2), 60)
    earlier = await age()
    assert await age() > earlier > 0
    assert (await watched.metrics()).of("share_group_members", group=group) is not None


async def test_states_of_the_lag_are_exported_after_the_members_left(
    watched: Watched, client: Client
) -> None:
    topic, _ = await client.create()
    group = await client.group(errors_deadletterqueue_topic_name=unique("absent"))
    await client.publish(topic, "abcdefg")
    held = await client.acquire_all(group, topic, 7, "m")

    async def states(*expected: int) -> bool:
        metrics = await watched.metrics()
        found = [
            metrics.of("share_group_records", group=group, topic=topic, partition="0", state=state)
            for state in ("ready", "locked", "waiting", "archiving")
        ]
        return found == [*expected]

    await eventually(lambda: states(0, 7, 0, 0), 60)
    await client.acknowledge(group, "m", held[:1], RELEASE, delay_ms=3_600_000)
    await client.acknowledge(group, "m", held[1:3], RELEASE)
    await client.acknowledge(group, "m", held[3:4])
    await client.acknowledge(group, "m", held[4:5], REJECT)
    await eventually(lambda: states(2, 2, 1, 1), 60)
    await client.acknowledge(group, "m", held[5:], RELEASE, delay_ms=3_600_000)
    await eventually(lambda: states(2, 0, 3, 1), 60)
    # A leader that restarts loads the state of a group only when a member fetches for it.
    await asyncio.to_thread(watched.serve.stop)
    await asyncio.to_thread(watched.serve.start)
    await eventually(lambda: states(2, 0, 3, 1), 60)


async def test_lag_time_is_exported_without_consumers(watched: Watched, client: Client) -> None:
    topic, _ = await client.create()
    group = await client.group()
    await client.publish(topic, "abc")
    first, *_ = await client.acquire_all(group, topic, 3, "m")
    await client.acknowledge(group, "m", [first])
    # A leader that restarts has no state of a group until a member fetches for it.
    await asyncio.to_thread(watched.serve.stop)
    await asyncio.to_thread(watched.serve.start)

    async def exported() -> bool:
        metrics = await watched.metrics()
        lag, age = (metrics.of(f"share_group_{name}", group=group) for name in _BACKLOG)
        return lag == 2 and bool(age)

    await eventually(exported, 60)
    assert (await watched.metrics()).of("share_partition_locked_messages", group=group) is None


async def test_every_call_is_counted_with_its_outcome(watched: Watched, client: Client) -> None:
    topic, _ = await client.create()
    before = await watched.metrics()
    await client.publish(topic, "a")
    await rejection(client.publish("nowhere", "a"))
    after = await watched.metrics()
    publish = {"method": "ProduceService/Publish"}

    def more(name: str, **labels: str) -> float:
        return (after.of(name, **publish, **labels) or 0) - (before.of(name, **publish, **labels) or 0)

    assert more("rpc_calls_total", code="OK") == 1
    assert more("rpc_calls_total", code="NOT_FOUND") == 1
    assert more("rpc_errors_total", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
    assert more("rpc_seconds_count") == 2
    assert after.of("rpc_in_flight", **publish) == 0


async def test_dependencies_are_exported(watched: Watched, client: Client) -> None:
    await client.create()
    metrics = await watched.metrics()
    assert metrics.of("shards", coordinator="share-coordinator", state="active") == 50
    assert metrics.of("shard_last_pruned_offset", shard="share-coordinator:7") is not None
    assert metrics.of("leases_held", kind="group-coordinator") == 50
    assert metrics.of("leases_missing") == 0
    assert metrics.of("members", role="gateway") == 1
    assert metrics.of("redis_connected") == 1
    assert metrics.of("log_append_records_count", log="catalog")
    assert metrics.of("log_append_seconds_sum", log="catalog")
    assert metrics.of("event_loop_lag_seconds_count") is not None


async def test_metric_names_are_unique_and_prefixed(watched: Watched) -> None:
    names = Counter(family.name for family in (await watched.metrics()).families)
    assert not [name for name, count in names.items() if count > 1]
    assert all(name.startswith(("sharebroker_", "process_")) for name in names)


async def test_many_share_partitions_have_few_series(watched: Watched, client: Client) -> None:
    topic, _ = await client.create(6)
    group = await client.group()
    for partition in range(6):
        await client.publish(topic, "ab", partition=partition)
    held = await client.acquire_all(group, topic, 12, "m")
    await client.acknowledge(group, "m", held[::2], RELEASE)
    await client.configure_broker("metrics.max.share.partitions", "3")

    async def few() -> bool:
        metrics = await watched.metrics()
        rows = [sample.value for sample in metrics.samples("share_partition_locked_messages")]
        lags = metrics.samples("share_group_lag")
        return len(rows) == len(lags) == 4 and bool(metrics.of("share_group_lag", partition="other"))

    await eventually(few, 60)
    await client.configure_broker("metrics.max.share.partitions", "1000")


async def test_concurrent_scrapes_are_served_quickly(watched: Watched) -> None:
    responses = await asyncio.gather(*(watched.ask("/metrics") for _ in range(24)))
    assert [status for status, _ in responses] == [200] * 24
    assert len({text for _, text in responses}) < 24
