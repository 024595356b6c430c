"""Groups, concurrency, failures (ShareConsumerTest; see README.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sharebroker import ErrorCode, KafkaError, Record
from sharebroker.aio import Producer, ShareConsumer
from tests.integration.share_consumer.harness import (
    TIMEOUT,
    Harness,
    accept_all,
    is_idle,
    offsets,
    poll,
    poll_records,
)
from tests.testkit.brokers import Cluster, one_process


async def test_multiple_consumers_with_different_group_ids(harness: Harness) -> None:
    other = await harness.new_topic()
    one = await harness.consumer()
    two = await harness.consumer(topics=[harness.topic, other])
    await harness.produce(3)
    await harness.produce(2, other)
    await poll_records(one, 3, accept=True)
    await poll_records(two, 5, accept=True)
    await harness.produce(2)
    await poll_records(one, 2, accept=True)
    await poll_records(two, 2, accept=True)


async def test_multiple_consumers_in_group_sequential_consumption(harness: Harness) -> None:
    group = await harness.new_group()
    consumers = [await harness.consumer(group) for _ in range(2)]
    await harness.produce_singly(200)
    taken: list[int] = []
    async with asyncio.timeout(TIMEOUT):
        while len(taken) < 200:
            for consumer in consumers:
                records = await consumer.poll(0.05)
                accept_all(records)
                taken += offsets(records)
    assert sorted(taken) == list(range(200))


class Tally:
    """Counts records accepted by several consumers of a group, until all are accepted."""

    def __init__(self, goal: int) -> None:
        self._goal = goal
        self.taken: list[tuple[str, int, int]] = []

    async def consume(self, consumer: ShareConsumer, polls: int | None = None) -> None:
        """Polls until the shared goal is reached, or for this many polls with records."""
        while len(self.taken) < self._goal and polls != 0:
            records = await consumer.poll(0.05)
            if records and polls is not None:
                polls -= 1
            accept_all(records)
            self.taken += [(record.topic, record.partition, record.offset) for record in records]
        assert all(result.error is None for result in await consumer.commit())

    def check(self) -> None:
        """Checks that as many as required were accepted, none twice."""
        assert len(self.taken) == len(set(self.taken)) == self._goal


async def test_multiple_consumers_in_group_concurrent_consumption(harness: Harness) -> None:
    group = await harness.new_group()
    topic = await harness.new_topic(3)
    tally = Tally(2000)
    async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as work:
        for _ in range(4):
            work.create_task(tally.consume(await harness.consumer(group, [topic])))
        work.create_task(harness.produce(2000, topic))
    tally.check()


async def test_multiple_consumers_in_multiple_groups_concurrent_consumption(harness: Harness) -> None:
    topic = await harness.new_topic(2)
    tallies = [Tally(8000) for _ in range(3)]

    async def publish() -> None:
        async with Producer(harness.server) as producer:
            for n in range(2000):
                await producer.send(topic, b"%d" % n)

    async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as work:
        for tally in tallies:
            group = await harness.new_group()
            for _ in range(2):
                work.create_task(tally.consume(await harness.consumer(group, [topic])))
        for _ in range(4):
            work.create_task(publish())
    for tally in tallies:
        tally.check()


async def test_consumer_close_in_group_sequential(harness: Harness) -> None:
    """The records of a closed consumer are delivered to another."""
    group = await harness.new_group()
    await harness.produce_singly(20)
    first = await harness.consumer(group, max_poll_records=5, prefetch_records=0)
    taken = await poll(first)
    accept_all(taken)
    held = await poll(first)
    await first.close()
    rest = await poll_records(await harness.consumer(group), 20 - len(taken), accept=True)
    assert sorted(offsets(taken) + offsets(rest)) == list(range(20))
    assert {
        record.offset: record.delivery_count for record in rest if record.delivery_count > 1
    } == dict.fromkeys(offsets(held), 2)


async def test_multiple_consumers_in_group_failure_concurrent_consumption(harness: Harness) -> None:
    group = await harness.new_group()
    topic = await harness.new_topic(4)
    tally = Tally(2000)

    async def give_up_early() -> None:
        consumer = await harness.consumer(group, [topic], max_poll_records=20)
        await tally.consume(consumer, polls=2)
        await consumer.poll(0.5)  # held, and never acknowledged
        await consumer.close()

    async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as work:
        work.create_task(give_up_early())
        for _ in range(3):
            consumer = await harness.consumer(group, [topic], max_poll_records=50)
            work.create_task(tally.consume(consumer))
        for _ in range(20):
            await harness.produce(100, topic)
    tally.check()


async def test_complex_share_consumer(harness: Harness) -> None:
    """Accept, reject, release and, once, no acknowledgement: in the end everything is finished."""
    group = await harness.new_group(share_record_lock_duration_ms=1000)
    await harness.produce_singly(100)
    finished: set[int] = set()
    consumer = await harness.consumer(group)
    async with asyncio.timeout(TIMEOUT):
        async for record in consumer:
            if _answer(record):
                assert record.offset not in finished
                finished.add(record.offset)
            if len(finished) == 100:
                break
    assert all(result.error is None for result in await consumer.commit())
    assert await is_idle(consumer)
    assert await harness.lag(group) == 0


def _answer(record: Record) -> bool:
    """Returns whether this acknowledgement finishes the record; at its first delivery each of four outcomes
    is equally likely.
    """
    kind = record.offset % 4
    if record.delivery_count == 1 and kind == 0:
        record.release()
        return False
    if record.delivery_count == 1 and kind == 1:
        return False
    if kind == 2:
        record.reject()
    else:
        record.accept()
    return True


async def test_members_share_partitions_until_they_leave(harness: Harness) -> None:
    topic = await harness.new_topic(4)
    group = await harness.new_group()
    consumers = [await harness.consumer(group, [topic]) for _ in range(2)]
    await harness.assigned(group, members=2, partitions=4)
    assert (await harness.admin.describe_group(group)).state == "Stable"
    for consumer in consumers:
        await consumer.close()
    described = await harness.admin.describe_group(group)
    assert (described.state, described.members) == ("Empty", ())
    await harness.admin.delete_group(group)
    with pytest.raises(KafkaError) as caught:
        await harness.admin.describe_group(group)
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.fixture
def own_server() -> Iterator[Cluster]:
    """Starts a server for one test, which shuts it down; its groups have at most three members."""
    with one_process("--set", "group.share.max.size=3") as cluster:
        yield cluster


async def test_consumer_close_on_broker_shutdown(own_server: Cluster) -> None:
    async with Harness(own_server.address) as harness:
        await harness.produce(1)
        consumer = await harness.consumer()
        (record,) = await poll(consumer)
        own_server.processes[0].kill()
        async with asyncio.timeout(10):
            await consumer.close(5.0)
        with pytest.raises(KafkaError):
            await record.accept()


async def test_share_group_max_size_config_exceeded(own_server: Cluster) -> None:
    async with Harness(own_server.address) as harness:
        group = await harness.new_group()
        for _ in range(3):
            await harness.consumer(group)
        await harness.assigned(group, members=3)
        fourth = await harness.consumer(group)
        with pytest.raises(KafkaError) as caught:
            await fourth.poll(TIMEOUT)
        assert caught.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
        with pytest.raises(KafkaError):
            await fourth.poll(0.1)  # for good


@pytest.mark.parametrize("mode", ["explicit", "implicit"])
async def test_leader_restart(own_server: Cluster, mode: str) -> None:
    """Acknowledgements of records from before the restart fail and are reported; the records are
    redelivered.
    """
    outcomes: list[KafkaError | None] = []
    async with Harness(own_server.address) as harness:
        await harness.produce(1)
        consumer = await harness.consumer(
            share_acknowledgement_mode=mode,
            acknowledgement_commit_callback=lambda outcome: outcomes.append(outcome.error),
        )
        (record,) = await poll(consumer)
        own_server.processes[0].kill()
        own_server.processes[0].start()
        if mode == "explicit":
            record.accept()
        consumer.commit_async()
        (again,) = await poll(consumer)
        assert (again.offset, again.delivery_count) == (0, 1)
        assert outcomes
        assert all(error is not None for error in outcomes)
        if mode == "explicit":
            again.accept()
        failed, applied = await consumer.commit()
        assert failed.error is not None
        assert applied.error is None
