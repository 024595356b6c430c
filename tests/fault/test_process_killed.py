"""The process of all roles is killed: acknowledged work is durable, unacknowledged work is retried."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from time import monotonic

import pytest
import redis

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.gateway.v1.produce_pb2 import PublishRecord, PublishRequest
from tests.support.client import RELEASE, RENEW, TIMEOUT, connected, decision
from tests.support.traffic import Traffic
from tests.testkit.brokers import Cluster, one_process

pytestmark = pytest.mark.xdist_group("fault-killed")  # one cluster for all tests


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


async def restart(cluster: Cluster) -> None:
    (process,) = cluster.processes
    await asyncio.to_thread(process.kill)
    await asyncio.to_thread(process.start)


async def test_accepts_survive_and_locked_records_are_redelivered(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create()
        group_id = await client.group()
        published = await client.publish(topic, map(str, range(10)))
        held = await client.acquire_all(group_id, topic, 10, "early")
        assert await client.acknowledge(group_id, "early", [held[0], held[1], held[4]]) == [0, 0, 0]
        assert await client.acknowledge(group_id, "early", [held[7]], RELEASE) == [0]
        before = (await client.inspect(group_id, topic_id)).folded
        await restart(cluster)
        after = (await client.inspect(group_id, topic_id)).folded
        assert (after.start_offset, after.state_batches) == (before.start_offset, before.state_batches)
        assert await client.publish(topic, ["10"]) == [(0, len(published))]
        again = await client.acquire_all(group_id, topic, 8, "late")
        assert [record.text for record in again] == ["2", "3", "5", "6", "7", "8", "9", "10"]
        assert await client.acknowledge(group_id, "early", held) != [0] * 10
        assert await client.acknowledge(group_id, "late", again) == [0] * 8
        assert await client.finished(group_id, topic_id) == set(range(11))


async def test_a_schedule_continues_after_the_leader_is_killed(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create(delivery_delay_enable="true")
        group_id = await client.group()
        begun = monotonic()
        records = [PublishRecord(text="later", deliver_after_ms=8000), PublishRecord(text="now")]
        await client.produce.Publish(PublishRequest(topic=topic, records=records), timeout=TIMEOUT)
        held = await client.acquire_all(group_id, topic, 1, "early")
        assert [record.text for record in held] == ["now"]
        assert await client.acknowledge(group_id, "early", held) == [0]
        await restart(cluster)
        again = await client.acquire_all(group_id, topic, 1, "late")
        assert monotonic() - begun >= 7.95
        assert [(record.text, record.delivery_count) for record in again] == [("later", 1)]


async def test_the_job_of_a_durable_lock_runs_once_over_three_fail_overs(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create()
        group_id = await client.group()
        await client.publish(topic, ["job", "short"])
        request = share.AcquireRequest(
            group_id=group_id, topics=[topic], member_id="early", max_wait_ms=20_000, as_text=True
        )
        request.lock_ms = 3_600_000
        (job,) = (await client.share.Acquire(request, timeout=TIMEOUT)).records
        request.lock_ms = 0
        (short,) = (await client.share.Acquire(request, timeout=TIMEOUT)).records
        for _ in range(3):
            renewal = decision(job, RENEW)
            renewal.lock_ms = 3_600_000
            call = share.AcknowledgeRequest(group_id=group_id, member_id="early", acknowledgements=[renewal])
            (renewed,) = (await client.share.Acknowledge(call, timeout=TIMEOUT)).results
            assert (renewed.error_code, renewed.lock_deadline_ms > job.lock_deadline_ms) == (0, True)
            await restart(cluster)
        (again,) = await client.acquire_all(group_id, topic, 1, "late")
        assert (job.text, again.text) == ("job", "short")
        assert await client.acknowledge(group_id, "late", [job]) == [ErrorCode.INVALID_RECORD_STATE]
        assert await client.acknowledge(group_id, "early", [short]) == [ErrorCode.INVALID_RECORD_STATE]
        assert await client.acknowledge(group_id, "early", [job]) == [ErrorCode.NONE]
        assert await client.acknowledge(group_id, "late", [again]) == [ErrorCode.NONE]
        assert await client.finished(group_id, topic_id) == {0, 1}


async def test_a_delay_continues_after_the_leader_is_killed(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create()
        group_id = await client.group(share_retry_backoff_ms="8000", share_retry_backoff_jitter="0")
        await client.publish(topic, ["0", "1"])
        held = await client.acquire_all(group_id, topic, 2, "early")
        released = monotonic()
        assert await client.acknowledge(group_id, "early", held[:1], RELEASE) == [0]
        await restart(cluster)
        again = await client.acquire_all(group_id, topic, 2, "late")
        # Both leaders estimate the clock of Redis, each with an error below the round trip of a command.
        assert monotonic() - released >= 8.0 - 0.05
        assert [(record.text, record.delivery_count) for record in again] == [("1", 1), ("0", 2)]


async def test_no_acknowledged_record_is_lost_or_redelivered_under_load(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create(4)
        traffic = Traffic(cluster.address, topic, await client.group())
        async with traffic.flowing() as books:
            for _ in range(3):
                await restart(cluster)
                await traffic.moves()
            await traffic.drain(client, topic_id)
        assert not books.broken


async def test_process_recovers_from_a_killed_embedded_valkey(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, topic_id = await client.create(4)
        traffic = Traffic(cluster.address, topic, await client.group())
        async with traffic.flowing() as books:
            for _ in range(2):
                with redis.Redis.from_url(cluster.redis_url) as connection:
                    pid = connection.info("server")["process_id"]
                os.kill(pid, signal.SIGKILL)
                await traffic.moves()
            await traffic.drain(client, topic_id)
        assert not books.broken
