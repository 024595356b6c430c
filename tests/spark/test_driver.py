"""The driver's side of a query against a real server, without Spark: the test calls it like Spark."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_spark.client import GatewayClient as PlanClient
from sharebroker_spark.client import log_spans
from sharebroker_spark.core.offsets import PlannedBatch, Range
from sharebroker_spark.core.options import read_options
from sharebroker_spark.core.verdicts import VerdictRange
from sharebroker_spark.driver import Driver, FencedError, LeaseLostError
from sharebroker_spark.publishing import TaskPublisher, end
from sharebroker_spark.staging import stage
from tests.support.client import TIMEOUT, Client, connected
from tests.testkit.brokers import Serve
from tests.testkit.waiting import eventually

RECORDS, PUBLISHED = 20, 60_000


@dataclass
class Cluster:
    """A server, a topic of two partitions with records in the first, and a group."""

    serve: Serve
    client: Client
    topic: str
    topic_id: str
    group: str

    @contextmanager
    def driver(self, **given: str) -> Iterator[Driver]:
        """Provides a driver of a query; its connection is closed as the end of its process would."""
        options = {"bootstrap": self.serve.address, "topics": self.topic, "group": self.group}
        asked = read_options({**options, "maxRecordsPerTrigger": "8", **given}, streaming=True)
        client = PlanClient(asked.bootstrap, waits=asked.waits)
        driver = Driver(asked, client)
        try:
            yield driver
        finally:
            driver.close()
            client.close()

    async def restart(self) -> None:
        """Kills the server, and starts it again."""
        await asyncio.to_thread(self.serve.kill)
        await asyncio.to_thread(self.serve.start)

    async def finished(self) -> set[int]:
        """Returns what the group has finished in the first partition."""
        return await self.client.finished(self.group, self.topic_id)


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    folder: Path = tmp_path_factory.mktemp("serve")
    options = ["--data", str(folder / "data"), "--set", "group.share.min.record.lock.duration.ms=1000"]
    serve = Serve(folder, options, "all")
    serve.start()
    yield serve
    serve.stop()


@pytest.fixture
async def cluster(serve: Serve) -> AsyncIterator[Cluster]:
    async with connected(serve.address) as client:
        topic, topic_id = await client.create(2)
        await client.publish(topic, map(str, range(RECORDS)), partition=0)
        yield Cluster(serve, client, topic, topic_id, await client.group())


async def call(work: Any, *arguments: Any) -> Any:
    """Runs work in Spark's thread."""
    return await asyncio.to_thread(work, *arguments)


def spans(batch: PlannedBatch) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in batch.ranges]


async def test_a_query_runs_and_ends(cluster: Cluster) -> None:
    with cluster.driver() as driver:
        batch = PlannedBatch("session-1")
        seen = []
        for _ in range(4):
            batch = await call(driver.plan, batch, None, 0)
            seen.append((batch.number, spans(batch)))
        assert seen == [(1, [(0, 7)]), (2, [(8, 15)]), (3, [(16, 19)]), (3, [(16, 19)])]
        assert await cluster.finished() == set(range(RECORDS))
        await call(driver.commit, batch)


async def test_a_batch_is_planned_again_by_the_next_process(cluster: Cluster) -> None:
    with cluster.driver() as driver:
        planned = await call(driver.plan, PlannedBatch("s"), None, 0)
    with cluster.driver() as driver:
        assert spans(await call(driver.plan, PlannedBatch("s"), None, 0)) == spans(planned)


async def test_recorded_batch_is_completed_by_the_next_process(cluster: Cluster) -> None:
    with cluster.driver() as driver:
        planned = await call(driver.plan, PlannedBatch("s"), None, 0)
    await cluster.restart()
    with cluster.driver() as driver:
        await call(driver.resume, planned)
        others = await cluster.client.acquire(cluster.group, cluster.topic, 20, member="other")
        assert [record.offset for record in others.records] == list(range(8, 20))
        assert await call(driver.plan, planned, None, 0) == planned
        assert await cluster.finished() == set(range(8))


async def test_repeated_commit_of_a_batch_reports_no_loss(cluster: Cluster) -> None:
    with cluster.driver() as driver:
        first = await call(driver.plan, PlannedBatch("s"), None, 0)
        await call(driver.plan, first, None, 0)
    with cluster.driver() as driver:
        assert spans(await call(driver.plan, first, None, 0)) == [(8, 15)]


async def test_a_second_driver_fences_the_first(cluster: Cluster) -> None:
    with cluster.driver() as first, cluster.driver() as second:
        planned = await call(first.plan, PlannedBatch("s"), None, 0)
        await call(second.resume, planned)
        for work in (first.plan, first.commit):
            arguments = (planned, None, 0) if work == first.plan else (planned,)
            with pytest.raises(FencedError, match="Another driver reads with this checkpoint"):
                await call(work, *arguments)
        assert spans(await call(second.plan, planned, None, 0)) == [(8, 15)]


async def test_locks_are_renewed_while_a_batch_is_processed(cluster: Cluster) -> None:
    cluster.group = await cluster.client.group(share_record_lock_duration_ms="1000")
    with cluster.driver() as driver:
        planned = await call(driver.plan, PlannedBatch("s"), None, 0)
        await eventually(lambda: driver.renewals >= 4, TIMEOUT)
        # Longer than a lock lasts; after a timeout on a busy machine, renewal would have acquired it again.
        assert spans(await call(driver.plan, planned, None, 0)) == [(8, 15)]
        assert await cluster.finished() == set(range(8))


async def test_newly_planned_batch_is_not_renewed(cluster: Cluster) -> None:
    cluster.group = await cluster.client.group(share_record_lock_duration_ms="60000")
    with cluster.driver() as driver:
        for _ in range(20):
            assert spans(await call(driver.plan, PlannedBatch("s"), None, 0)) == [(0, 7)]
        assert driver.renewals == 0


async def test_too_slow_batch_fails_the_query_or_continues(cluster: Cluster) -> None:
    cluster.group = await cluster.client.group(share_record_lock_duration_ms="1000")
    with (
        cluster.driver(maxBatchDurationMs="1000") as driver,
        cluster.driver(onLeaseLost="continue") as second,
    ):
        planned = await call(driver.plan, PlannedBatch("s"), None, 0)
        taken: list[int] = []

        async def all_taken() -> bool:
            others = await cluster.client.acquire(cluster.group, cluster.topic, 20, member="other", wait=1.0)
            taken.extend(record.offset for record in others.records if record.offset < 8)
            await cluster.client.acknowledge(cluster.group, "other", others.records)
            return len(set(taken)) == 8

        await eventually(all_taken, 3 * TIMEOUT)
        with pytest.raises(
            LeaseLostError, match=r"longer than its locks, \d+ s: 8 of its 8 records .* lasts 1 s"
        ):
            await call(driver.plan, planned, None, 0)
        assert (driver.lost, driver.taken) == (0, 8)
        await call(second.plan, planned, None, 0)


async def test_record_deleted_by_retention_is_not_a_lost_lock(cluster: Cluster) -> None:
    with cluster.driver() as driver:
        batch = await call(driver.plan, PlannedBatch("s"), None, 0)
        batch = await call(driver.plan, batch, None, 0)  # from here on its commits are certain
        part = leader.DeleteRecordsRequest.Partition(topic_id=cluster.topic_id, partition=0, offset=11)
        request = leader.DeleteRecordsRequest(partitions=[part])
        await cluster.client.admin.DeleteRecords(request, timeout=TIMEOUT)
        assert spans(await call(driver.plan, batch, None, 0)) == [(16, 19)]
        assert (driver.lost, driver.taken) == (3, 0)


async def test_query_survives_a_server_outage(cluster: Cluster) -> None:
    with cluster.driver() as driver:
        planned = await call(driver.plan, PlannedBatch("s"), None, 0)
        await asyncio.to_thread(cluster.serve.kill)
        waiting = asyncio.create_task(call(driver.plan, planned, None, 0))
        await asyncio.to_thread(cluster.serve.start)
        assert spans(await waiting) == [(8, 15)]


async def test_staged_verdicts_are_committed_after_sparks_commit(cluster: Cluster) -> None:
    with cluster.driver() as driver, closing(PlanClient(cluster.serve.address, waits=True)) as client:
        planned = await call(driver.plan, PlannedBatch("s"), None, 0)
        token = driver.token(planned)
        await call(
            stage,
            client,
            token,
            [VerdictRange(cluster.topic, 0, 0, 3, 2), VerdictRange(cluster.topic, 0, 6, 7, 3)],
        )
        assert await cluster.finished() == set()
    await cluster.restart()
    with cluster.driver() as driver, closing(PlanClient(cluster.serve.address, waits=True)) as client:
        await call(driver.resume, planned)
        following = await call(driver.plan, planned, None, 0)
        assert spans(following) == [(0, 3), (8, 11)]
        assert [one.delivery_count for one in following.ranges] == [2, 1]
        assert token.epoch < driver.token(following).epoch
        with pytest.raises(KafkaError, match="newer driver"):
            await call(stage, client, token, [])


async def test_published_rows_are_stored_once_despite_a_server_death(cluster: Cluster) -> None:
    def publish(client: PlanClient) -> tuple[int, int]:
        publisher = TaskPublisher(client)
        for number in range(PUBLISHED):
            publisher.send(cluster.topic, b"%100d" % number, None if number % 3 else b"%d" % number)
        publisher.flush()
        return publisher.records, publisher.bytes

    async def some() -> bool:
        ends = await call(log_spans, client, [cluster.topic])
        return bool(sum(end for _, end in ends.values()) > RECORDS)

    with closing(PlanClient(cluster.serve.address, waits=True)) as client:
        publishing = asyncio.create_task(call(publish, client))
        await eventually(some, TIMEOUT)
        await cluster.restart()
        keys = sum(len(b"%d" % number) for number in range(0, PUBLISHED, 3))
        assert await publishing == (PUBLISHED, 100 * PUBLISHED + keys)
        ends = await call(log_spans, client, [cluster.topic])
        assert sum(end for _, end in ends.values()) == RECORDS + PUBLISHED


async def test_rows_of_a_retried_attempt_are_aborted(cluster: Cluster) -> None:
    topic, _ = await cluster.client.create(2)
    readers = await cluster.client.group(share_isolation_level="read_committed")

    def attempt(client: PlanClient) -> TaskPublisher:
        publisher = TaskPublisher(client, f"spark/{topic}/0")
        for number in range(50):
            publisher.send(topic, b"%d" % number)
        publisher.flush()
        return publisher

    def attempts(client: PlanClient) -> None:
        first, second = attempt(client), attempt(client)
        first.send(topic, b"late")
        with pytest.raises(KafkaError):
            first.flush()
        assert second.transaction
        for _ in range(2):  # a response may be lost
            end(client, second.transaction, committed=True)
        assert TaskPublisher(client, "spark/none/0").transaction is None
        aborted = attempt(client)
        assert aborted.transaction
        end(client, aborted.transaction, committed=False)

    with closing(PlanClient(cluster.serve.address, waits=True)) as client:
        await call(attempts, client)
    read = await cluster.client.acquire_all(readers, topic, 50, "reader")
    assert sorted(int(record.text) for record in read) == list(range(50))
    more = await cluster.client.acquire(readers, topic, 50, member="reader", wait=0.5)
    assert list(more.records) == []


async def test_unpublishable_rows_are_reported(cluster: Cluster) -> None:
    with closing(PlanClient(cluster.serve.address, waits=True)) as client:
        publisher = await call(TaskPublisher, client)
        for topic, partition, text in (
            ("nowhere", None, "does not exist"),
            (cluster.topic, 7, "partition is 7"),
        ):
            with pytest.raises(KafkaError, match=text):
                await call(publisher.send, topic, b"x", None, (), partition)


async def test_planning_can_be_limited_to_partitions(cluster: Cluster) -> None:
    await cluster.client.publish(cluster.topic, ["x"], partition=1)
    with cluster.driver() as driver:
        plan_client = PlanClient(cluster.serve.address, waits=True)
        assert await call(log_spans, plan_client, [cluster.topic]) == {
            (cluster.topic, 0): (0, RECORDS),
            (cluster.topic, 1): (0, 1),
        }
        plan_client.close()
        batch = await call(driver.plan, PlannedBatch("s"), {(cluster.topic, 1): 1}, 0)
        assert batch.ranges == (Range(cluster.topic, 1, 0, 0, 1),)
        assert await call(driver.plan, batch, {}, 0) == batch
        assert await cluster.client.finished(cluster.group, cluster.topic_id, 1) == {0}


async def test_missing_topic_fails_at_once(cluster: Cluster) -> None:
    with cluster.driver(topics="nowhere") as driver:
        with pytest.raises(KafkaError) as caught:
            await call(driver.plan, PlannedBatch("s"), None, 0)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
