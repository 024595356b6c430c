"""Retention runs periodically; by consumption it queries the group coordinators."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.catalog.records import ConfigRecord
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.routing.router import Peer, Router
from sharebroker_server.share_partition_leader.log.retention import RetentionTask, consumed_offsets
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.harness import ACCEPT, GROUP, ME, RELEASE, TOPIC, Harness
from tests.unit.share_partition_leader.harness import harness as started


async def _published(harness: Harness, partitions: int = 1, **retention: object) -> None:
    """Three batches of three records in each partition, and a retention."""
    await harness.create_topic(partitions=partitions)
    for partition in range(partitions):
        for _ in range(3):
            await harness.publish(3, partition)
        log = (await harness.leadership.led(TOPIC, partition)).own_log
        log.settings = type(log.settings)(retention=Retention(**{"retention_ms": -1, **retention}))  # type: ignore[arg-type]


def _starts(harness: Harness) -> list[int]:
    return [led.log.log_start_offset for led in harness.leadership.partitions()]


async def test_old_records_are_deleted_periodically() -> None:
    async with started() as harness:
        await _published(harness, retention_ms=1000)
        task = RetentionTask(harness.leadership, router(), 300)
        before = asyncio.get_running_loop().time()
        task.start()
        await eventually(lambda: _starts(harness) == [9], timeout=1000)
        assert asyncio.get_running_loop().time() - before >= 300
        await task.stop()


async def test_consumed_records_are_deleted_by_the_consumed_policy() -> None:
    async with started() as harness:
        await _published(harness, partitions=2, consumed=True)
        coordinator = Coordinator(a={(TOPIC, 0): 7, (TOPIC, 1): 3}, b={(TOPIC, 0): 8})
        await RetentionTask(harness.leadership, router(coordinator), 300).apply()
        assert _starts(harness) == [6, 3]


async def test_records_are_kept_while_start_offsets_are_unknown() -> None:
    async with started() as harness:
        await _published(harness, partitions=2, consumed=True)
        timed, _ = harness.leadership.partitions()
        timed.own_log.settings = type(timed.own_log.settings)(retention=Retention(retention_ms=1000))
        coordinator = Coordinator(a={(TOPIC, 1): 7})
        coordinator.refused = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        task = RetentionTask(harness.leadership, router(coordinator), 300)
        await task.apply()
        assert _starts(harness) == [9, 0]
        coordinator.refused = ErrorCode.NONE
        await task.apply()
        assert _starts(harness) == [9, 6]


async def test_failed_trim_does_not_stop_other_logs() -> None:
    async with started() as harness:
        await _published(harness, partitions=2, retention_ms=1000)
        first, second = harness.leadership.partitions()
        harness.records.fence(first.log.partition, first.log.epoch + 1)
        task = RetentionTask(harness.leadership, router(), 300)
        await task.apply()
        assert _starts(harness) == [0, 9]
        await task.apply()
        assert second.log.log_start_offset == 9


async def test_retention_drops_unused_groups() -> None:
    async with started() as harness:
        await harness.create_topic()
        idle = await harness.share_partition()
        await RetentionTask(harness.leadership, router(), 300).apply()
        assert idle.retired


async def test_waiting_records_that_retention_deletes_are_counted() -> None:
    async with started() as harness:
        await _published(harness)
        log = (await harness.leadership.led(TOPIC, 0)).own_log
        await harness.acquire(9)
        await harness.acknowledge((1, 4, RELEASE), delay_ms=60_000)
        await harness.acknowledge((5, 5, RELEASE))
        log.settings = type(log.settings)(retention=Retention(retention_ms=1000))
        counters = harness.leadership.counters
        with capture_logs() as logs:
            await RetentionTask(harness.leadership, router(), 300).apply()
        assert _starts(harness) == [9]
        assert "records deleted by retention" in {entry["event"] for entry in logs}
        (counts,) = [counts for pair, counts in counters.all() if pair.group == GROUP]
        assert counts.deleted_waiting == 4


async def test_waiting_records_that_were_deleted_before_a_load_are_counted(harness: Harness) -> None:
    await harness.publish(6)
    await harness.acquire(6)
    await harness.acknowledge((0, 0, ACCEPT), (5, 5, ACCEPT))
    await harness.acknowledge((1, 4, RELEASE), delay_ms=60_000)
    led = await harness.leadership.led(TOPIC, 0)
    harness.leadership.drop_unused()
    assert not led.ready
    await led.own_log.delete_records(3)
    await harness.share_partition()
    counters = harness.leadership.counters
    assert [counts.deleted_waiting for _, counts in counters.all()] == [2, 0]


async def test_retention_runs_again_after_an_unexpected_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async with started() as harness:
        await _published(harness, retention_ms=1000)
        failures = [ZeroDivisionError()]

        def drop_unused() -> None:
            if failures:
                raise failures.pop()

        monkeypatch.setattr(harness.leadership, "drop_unused", drop_unused)
        task = RetentionTask(harness.leadership, router(), 300)
        with capture_logs() as logs:
            task.start()
            await eventually(lambda: _starts(harness) == [9], timeout=1000)
        assert "retention failed" in {entry["event"] for entry in logs}
        await task.stop()


async def test_stop_before_start_does_not_raise() -> None:
    async with started() as harness:
        await RetentionTask(harness.leadership, router(), 300).stop()


async def test_retention_policy_of_the_topic_applies_to_the_log(harness: Harness) -> None:
    led = await harness.leadership.led(TOPIC, 0)
    resource = ConfigResource(ResourceType.TOPIC, "orders")
    await harness.append_to_catalog(ConfigRecord(resource, "retention.policy", "consumed"))
    assert led.own_log.settings.retention.consumed


async def test_idle_producers_are_removed() -> None:
    async with started() as harness:
        await harness.create_topic()
        await harness.publish_bytes(batch(1, producer=(7, 0, 0)))
        log = (await harness.leadership.led(TOPIC, 0)).own_log
        task = RetentionTask(harness.leadership, router(), 300)
        with patch(f"{RetentionTask.__module__}.now", lambda: clock.now() + 24 * 3600 - 1):
            await task.apply()
        assert list(log.transactions.producers) == [7]
        with patch(f"{RetentionTask.__module__}.now", lambda: clock.now() + 24 * 3600 + 1):
            await task.apply()
        assert not log.transactions.producers


async def test_state_in_the_log_is_renewed_far_from_the_end() -> None:
    async with started() as harness:
        await harness.create_topic(configs={"share.state.storage": "log"})
        await harness.publish(3)
        log = (await harness.leadership.led(TOPIC, 0)).own_log
        log.settings = replace(log.settings, retention=Retention(retention_ms=-1))
        task = RetentionTask(harness.leadership, router(), 300)
        await task.apply()
        assert log.earliest_share_offset == 0
        log.settings = replace(log.settings, state_lag_bytes=1)
        await task.apply()
        assert (log.earliest_share_offset, log.records_end_offset) == (4, 4)


class Coordinator:
    """A group coordinator with the start offsets of its groups; -1 is not set yet."""

    def __init__(self, **groups: dict[tuple[str, int], int]) -> None:
        self.groups = groups
        self.refused = ErrorCode.NONE

    async def ListGroups(self, request: Any, *, timeout: float) -> group.ListGroupsResponse:
        response = group.ListGroupsResponse()
        for name in self.groups:
            response.groups.add(group_id=name)
        return response

    async def DescribeShareGroupOffsets(
        self, request: group.DescribeShareGroupOffsetsRequest, *, timeout: float
    ) -> group.DescribeShareGroupOffsetsResponse:
        response = group.DescribeShareGroupOffsetsResponse()
        for requested in request.groups:
            assert requested.all_topics
            answer = response.groups.add(group_id=requested.group_id)
            if self.refused:
                answer.error_code = int(self.refused)  # type: ignore[assignment]  # the enum's numbers are Kafka's
            for (topic_id, partition), offset in self.groups[requested.group_id].items():
                topic = answer.topics.add(topic_id=topic_id)
                topic.partitions.add(partition=partition, start_offset=offset)
        return response


def router(*coordinators: Coordinator, lacking: bool = False) -> Router:
    """A router to these group coordinators; `lacking`: a shard has no owner."""

    def check_all_answered(role: str, shards: object) -> None:
        if lacking:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "a shard has no owner")

    peers = [Peer(ME, coordinator) for coordinator in coordinators]
    return cast(
        "Router",
        SimpleNamespace(group_coordinators=lambda: peers, check_all_answered=check_all_answered),
    )


async def test_slowest_group_bounds_the_consumed_offset() -> None:
    first = Coordinator(a={("t", 0): 10, ("t", 1): 20}, b={("t", 0): 5})
    second = Coordinator(c={("t", 1): 7, ("u", 0): -1})
    assert await consumed_offsets(router(first, second)) == {("t", 0): 5, ("t", 1): 7, ("u", 0): 0}
    assert await consumed_offsets(router()) == {}


@pytest.mark.parametrize("lacking", [False, True])
async def test_one_unavailable_group_makes_the_result_an_error(lacking: bool) -> None:
    coordinator = Coordinator(a={("t", 0): 10})
    if not lacking:
        coordinator.refused = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(KafkaError):
        await consumed_offsets(router(coordinator, lacking=lacking))
