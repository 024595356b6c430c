"""Groups, concurrency, failures.

Left out: testShareConsumerAfterCoordinatorMovement (tests/fault), testShareGroupShareSessionCacheIsFull (a
Consume stream needs no share session).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic

import pytest

from libs.testkit.brokers import one_process
from sharebroker import ErrorCode, KafkaError, Producer, Record, ShareConsumer
from tests.scenarios.share_consumer.world import (
    PATIENCE,
    World,
    accept_all,
    nothing_comes,
    offsets,
    poll,
    take,
)


def test_multiple_consumers_with_different_group_ids(world: World) -> None:
    other = world.new_topic()
    one, two = world.consumer(world.new_group()), world.consumer(world.new_group(), [world.topic, other])
    world.produce(3)
    world.produce(2, other)
    accept_all(take(one, 3))
    accept_all(take(two, 5))
    world.produce(2)
    accept_all(take(one, 2))
    accept_all(take(two, 2))


def test_multiple_consumers_in_group_sequential_consumption(world: World) -> None:
    group = world.new_group()
    consumers = [world.consumer(group), world.consumer(group)]
    world.produce(2000)
    taken: list[int] = []
    deadline = monotonic() + PATIENCE
    while len(taken) < 2000 and monotonic() < deadline:
        for consumer in consumers:
            records = consumer.poll(0.1)
            accept_all(records)
            taken += offsets(records)
    assert sorted(taken) == list(range(2000))


class Count:
    """Records accepted by several consumers of a group, until all of them are."""

    def __init__(self, goal: int) -> None:
        self._goal = goal
        self.taken: list[tuple[str, int, int]] = []

    def consume(self, consumer: ShareConsumer, polls: int | None = None) -> None:
        deadline = monotonic() + PATIENCE
        while len(self.taken) < self._goal and monotonic() < deadline and polls != 0:
            polls = None if polls is None else polls - 1
            for record in consumer.poll(0.1):
                record.accept()
                self.taken.append((record.topic, record.partition, record.offset))
        consumer.commit()


def together(*work: Callable[[], None]) -> None:
    with ThreadPoolExecutor(len(work)) as threads:
        for future in [threads.submit(job) for job in work]:
            future.result(60)


def test_multiple_consumers_in_group_concurrent_consumption(world: World) -> None:
    group = world.new_group()
    topic = world.new_topic(3)
    world.produce(2000, topic)
    count = Count(2000)
    consumers = [world.consumer(group, [topic]) for _ in range(4)]
    together(*(partial(count.consume, consumer) for consumer in consumers))
    assert len(count.taken) == len(set(count.taken)) == 2000


def test_multiple_consumers_in_multiple_groups_concurrent_consumption(world: World) -> None:
    topic = world.new_topic(2)
    counts = [Count(8000) for _ in range(3)]
    jobs: list[Callable[[], None]] = []
    for count in counts:
        group = world.new_group()
        for _ in range(2):
            consumer = world.consumer(group, [topic])
            jobs.append(partial(count.consume, consumer))

    def publish() -> None:
        with Producer(world.server) as producer:
            for n in range(2000):
                producer.send(topic, b"%d" % n)

    together(*jobs, *[publish] * 4)
    assert [len(set(count.taken)) for count in counts] == [8000, 8000, 8000]
    assert sum(len(count.taken) for count in counts) == 24_000


def test_consumer_close_in_group_sequential(world: World) -> None:
    group = world.new_group()
    world.produce_singly(20)
    first = world.consumer(group, max_poll_records=5, prefetch_records=0)
    taken = offsets(take(first, 5, accept=True))
    poll(first)  # held when it closes
    first.close()
    taken += offsets(take(world.consumer(group), 15, accept=True))
    assert sorted(taken) == list(range(20))


def test_multiple_consumers_in_group_failure_concurrent_consumption(world: World) -> None:
    group = world.new_group()
    topic = world.new_topic(4)
    world.produce(2000, topic)
    count = Count(2000)
    consumers = [world.consumer(group, [topic], max_poll_records=50) for _ in range(4)]

    def give_up_early() -> None:
        count.consume(consumers[0], polls=3)
        consumers[0].close()

    together(give_up_early, *(partial(count.consume, consumer) for consumer in consumers[1:]))
    assert len(set(count.taken)) == 2000


def test_complex_share_consumer(world: World) -> None:
    """Accept, reject, release and, one time, no answer at all: in the end everything is finished."""
    group = world.new_group(share_record_lock_duration_ms="1000")
    world.produce(500)
    finished: set[int] = set()
    deadline = monotonic() + 45
    with ShareConsumer(world.server, group, [world.topic]) as consumer:
        for record in consumer:
            kind = (record.offset + record.delivery_count) % 4
            if kind == 0 and record.delivery_count < 3:
                record.release()
            elif kind == 1:
                record.reject()
                finished.add(record.offset)
            elif kind != 2 or record.delivery_count > 1:
                record.accept()
                finished.add(record.offset)
            if len(finished) == 500 or monotonic() > deadline:
                break
        consumer.commit()
    assert len(finished) == 500
    assert nothing_comes(world.consumer(group))


def test_consumer_close_on_broker_shutdown() -> None:
    with one_process() as cluster, contextlib.ExitStack() as stack:
        world = World(cluster.address)
        stack.callback(world.close)
        world.produce(1)
        consumer = world.consumer(world.new_group())
        poll(consumer)
        cluster.processes[0].kill()
        consumer.close(5.0)
        with pytest.raises(KafkaError):
            world.admin.list_topics()


def test_a_consumer_goes_on_when_the_server_is_back() -> None:
    with one_process() as cluster, contextlib.ExitStack() as stack:
        world = World(cluster.address)
        stack.callback(world.close)
        world.produce(1)
        consumer = world.consumer(world.new_group())
        (record,) = poll(consumer)
        cluster.processes[0].kill()
        cluster.processes[0].start()
        again = _after_restart(consumer)
        late = record.accept()
        consumer.commit()
        assert late.error is not None
        assert "connection was lost" in late.error.message
        again.accept().result(10)


def _after_restart(consumer: ShareConsumer) -> Record:
    deadline = monotonic() + PATIENCE
    while monotonic() < deadline:
        with contextlib.suppress(Exception):
            for record in consumer.poll(1.0):
                return record
    raise AssertionError("the record did not come again")


def test_share_group_max_size_config_exceeded(small_server: str) -> None:
    world = World(small_server)
    try:
        group = world.new_group()
        for _ in range(3):
            assert nothing_comes(world.consumer(group))
        fourth = world.consumer(group)
        with pytest.raises(KafkaError) as caught:
            fourth.poll(5.0)
        assert caught.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
        with pytest.raises(KafkaError):
            fourth.poll(0.1)  # for good
    finally:
        world.close()
