"""Subscription and poll API."""

from __future__ import annotations

import threading

import pytest

from sharebroker import ErrorCode, IllegalStateError, KafkaError, WakeupError
from sharebroker.aio import ShareConsumer as AsyncShareConsumer
from tests.scenarios.share_consumer.world import World, accept_all, nothing_comes, poll, take


def test_poll_no_subscribe_fails(world: World) -> None:
    consumer = world.consumer(world.new_group(), [])
    assert consumer.subscription == frozenset()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        consumer.poll(0.1)


def test_subscribe_and_poll_no_records(world: World) -> None:
    consumer = world.consumer(world.new_group())
    assert consumer.subscription == {world.topic}
    assert nothing_comes(consumer)


def test_subscribe_poll_unsubscribe(world: World) -> None:
    consumer = world.consumer(world.new_group())
    assert nothing_comes(consumer)
    consumer.unsubscribe()
    assert consumer.subscription == frozenset()


def test_subscribe_poll_subscribe(world: World) -> None:
    consumer = world.consumer(world.new_group())
    assert nothing_comes(consumer)
    consumer.subscribe([world.topic])
    assert consumer.subscription == {world.topic}
    assert nothing_comes(consumer)


def test_subscribe_unsubscribe_poll_fails(world: World) -> None:
    consumer = world.consumer(world.new_group())
    assert nothing_comes(consumer)
    consumer.unsubscribe()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        consumer.poll(0.1)


def test_subscribe_subscribe_empty_poll_fails(world: World) -> None:
    consumer = world.consumer(world.new_group())
    consumer.subscribe([])
    assert consumer.subscription == frozenset()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        consumer.poll(0.1)


def test_subscription_and_poll(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group())
    assert len(poll(consumer)) == 1


def test_subscription_and_poll_multiple(world: World) -> None:
    other = world.new_topic()
    consumer = world.consumer(world.new_group())
    for topic in (world.topic, other, world.topic):
        consumer.subscribe([topic])
        world.produce(1, topic)
        (record,) = poll(consumer)
        assert record.topic == topic
        record.accept()


def test_subscription_followed_by_topic_creation(world: World) -> None:
    missing = f"{world.topic}-later"
    consumer = world.consumer(world.new_group(), [missing])
    assert nothing_comes(consumer)
    world.admin.create_topic(missing)
    world.produce(1, missing)
    assert [record.topic for record in poll(consumer)] == [missing]


def test_subscription_and_poll_followed_by_topic_deletion(world: World) -> None:
    other = world.new_topic()
    consumer = world.consumer(world.new_group(), [world.topic, other])
    world.produce(1)
    world.produce(1, other)
    accept_all(take(consumer, 2))
    world.admin.delete_topic(world.topic)
    world.produce(1, other)
    assert [record.topic for record in take(consumer, 1)] == [other]


def test_subscribe_on_invalid_topic_throws_invalid_topic_exception(world: World) -> None:
    consumer = world.consumer(world.new_group(), [])
    with pytest.raises(KafkaError) as caught:
        consumer.subscribe(["topic abc"])
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_poll_throws_interrupt_exception_if_interrupted(world: World) -> None:
    """Python's interruption of a task is its cancellation."""
    import asyncio

    async with AsyncShareConsumer(world.server, world.new_group(), [world.topic]) as consumer:
        polling = asyncio.create_task(consumer.poll(30))
        await asyncio.sleep(0)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        assert await consumer.poll(0.1) == []


def test_wakeup_with_fetched_records_available(world: World) -> None:
    world.produce(1)
    consumer = world.consumer(world.new_group())
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(1.0)
    assert len(poll(consumer)) == 1


def test_wakeup_interrupts_a_waiting_poll(world: World) -> None:
    consumer = world.consumer(world.new_group())
    waker = threading.Timer(0.1, consumer.wakeup)
    waker.start()
    with pytest.raises(WakeupError):
        consumer.poll(30.0)
    waker.join()
