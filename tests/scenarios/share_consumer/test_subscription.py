"""Subscription and poll API (ShareConsumerTest; reference of the scenarios: README.md)."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker import ErrorCode, IllegalStateError, KafkaError, WakeupError
from tests.scenarios.share_consumer.world import World, accept_all, nothing_comes, poll, take


async def test_poll_no_subscribe_fails(world: World) -> None:
    consumer = await world.consumer(topics=[])
    assert consumer.subscription == frozenset()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        await consumer.poll(0.1)


async def test_subscribe_and_poll_no_records(world: World) -> None:
    consumer = await world.consumer()
    assert consumer.subscription == {world.topic}
    assert await nothing_comes(consumer)


async def test_subscribe_poll_unsubscribe(world: World) -> None:
    consumer = await world.consumer()
    assert await nothing_comes(consumer)
    await consumer.unsubscribe()
    assert consumer.subscription == frozenset()


async def test_subscribe_poll_subscribe(world: World) -> None:
    consumer = await world.consumer()
    assert await nothing_comes(consumer)
    await consumer.subscribe([world.topic])
    assert consumer.subscription == {world.topic}
    await world.produce(1)
    assert len(await poll(consumer)) == 1


async def test_subscribe_unsubscribe_poll_fails(world: World) -> None:
    consumer = await world.consumer()
    assert await nothing_comes(consumer)
    await consumer.unsubscribe()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        await consumer.poll(0.1)


async def test_subscribe_subscribe_empty_poll_fails(world: World) -> None:
    consumer = await world.consumer()
    await consumer.subscribe([])
    assert consumer.subscription == frozenset()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        await consumer.poll(0.1)


async def test_a_consumer_that_unsubscribed_may_subscribe_again(world: World) -> None:
    group = await world.new_group()
    consumer = await world.consumer(group)
    await world.produce(1)
    accept_all(await poll(consumer))
    await consumer.unsubscribe()
    assert (await world.admin.describe_group(group)).members == ()
    await consumer.subscribe([world.topic])
    await world.produce(1)
    assert [record.offset for record in await poll(consumer)] == [1]


async def test_subscription_and_poll(world: World) -> None:
    await world.produce(1)
    assert len(await poll(await world.consumer())) == 1


async def test_subscription_and_poll_multiple(world: World) -> None:
    other = await world.new_topic()
    consumer = await world.consumer()
    for topic in (world.topic, other, world.topic):
        await consumer.subscribe([topic])
        await world.produce(1, topic)
        (record,) = await poll(consumer)
        assert record.topic == topic
        record.accept()


async def test_subscription_to_several_topics(world: World) -> None:
    topics = [world.topic, *[await world.new_topic(2) for _ in range(3)]]
    consumer = await world.consumer(topics=topics)
    for topic in topics:
        await world.produce(3, topic)
    taken = await take(consumer, 12, accept=True)
    assert sorted(record.topic for record in taken) == sorted(topics * 3)


async def test_subscription_followed_by_topic_creation(world: World) -> None:
    missing = f"{world.topic}-later"
    consumer = await world.consumer(topics=[missing])
    assert await nothing_comes(consumer)
    await world.admin.create_topic(missing)
    await world.produce(1, missing)
    assert [record.topic for record in await poll(consumer)] == [missing]


async def test_subscription_and_poll_followed_by_topic_deletion(world: World) -> None:
    other = await world.new_topic()
    consumer = await world.consumer(topics=[world.topic, other])
    await world.produce(1)
    await world.produce(1, other)
    await take(consumer, 2, accept=True)
    await world.admin.delete_topic(world.topic)
    await world.produce(1, other)
    assert [record.topic for record in await take(consumer, 1)] == [other]


async def test_a_topic_deleted_and_created_again_is_a_new_one(world: World) -> None:
    consumer = await world.consumer()
    await world.produce(2)
    await take(consumer, 2, accept=True)
    await world.admin.delete_topic(world.topic)
    await world.admin.create_topic(world.topic)
    await world.produce(1)
    assert [record.offset for record in await take(consumer, 1)] == [0]


async def test_subscribe_on_invalid_topic_throws_invalid_topic_exception(world: World) -> None:
    consumer = await world.consumer(topics=[])
    with pytest.raises(KafkaError) as caught:
        await consumer.subscribe(["topic abc"])
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_poll_throws_interrupt_exception_if_interrupted(world: World) -> None:
    """Python's interruption of a task is its cancellation."""
    consumer = await world.consumer()
    polling = asyncio.create_task(consumer.poll(30))
    await asyncio.sleep(0)
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    await world.produce(1)
    assert len(await poll(consumer)) == 1


async def test_wakeup_with_fetched_records_available(world: World) -> None:
    await world.produce(1)
    consumer = await world.consumer()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        await consumer.poll(5.0)
    assert len(await poll(consumer)) == 1


async def test_wakeup_interrupts_a_waiting_poll(world: World) -> None:
    consumer = await world.consumer()
    polling = asyncio.create_task(consumer.poll(30.0))
    await asyncio.sleep(0)
    consumer.wakeup()
    with pytest.raises(WakeupError):
        await polling
