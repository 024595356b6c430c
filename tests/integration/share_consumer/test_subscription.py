"""Subscription and poll API (ShareConsumerTest; reference of the scenarios: README.md)."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker import ErrorCode, IllegalStateError, KafkaError, WakeupError
from tests.integration.share_consumer.harness import Harness, accept_all, is_idle, poll, poll_records


async def test_poll_no_subscribe_fails(harness: Harness) -> None:
    consumer = await harness.consumer(topics=[])
    assert consumer.subscription == frozenset()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        await consumer.poll(0.1)


async def test_subscribe_and_poll_no_records(harness: Harness) -> None:
    consumer = await harness.consumer()
    assert consumer.subscription == {harness.topic}
    assert await is_idle(consumer)


async def test_subscribe_poll_unsubscribe(harness: Harness) -> None:
    consumer = await harness.consumer()
    assert await is_idle(consumer)
    await consumer.unsubscribe()
    assert consumer.subscription == frozenset()


async def test_subscribe_poll_subscribe(harness: Harness) -> None:
    consumer = await harness.consumer()
    assert await is_idle(consumer)
    await consumer.subscribe([harness.topic])
    assert consumer.subscription == {harness.topic}
    await harness.produce(1)
    assert len(await poll(consumer)) == 1


async def test_subscribe_unsubscribe_poll_fails(harness: Harness) -> None:
    consumer = await harness.consumer()
    assert await is_idle(consumer)
    await consumer.unsubscribe()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        await consumer.poll(0.1)


async def test_subscribe_subscribe_empty_poll_fails(harness: Harness) -> None:
    consumer = await harness.consumer()
    await consumer.subscribe([])
    assert consumer.subscription == frozenset()
    with pytest.raises(IllegalStateError, match="not subscribed"):
        await consumer.poll(0.1)


async def test_a_consumer_that_unsubscribed_may_subscribe_again(harness: Harness) -> None:
    group = await harness.new_group()
    consumer = await harness.consumer(group)
    await harness.produce(1)
    accept_all(await poll(consumer))
    await consumer.unsubscribe()
    assert (await harness.admin.describe_group(group)).members == ()
    await consumer.subscribe([harness.topic])
    await harness.produce(1)
    assert [record.offset for record in await poll(consumer)] == [1]


async def test_subscription_and_poll(harness: Harness) -> None:
    await harness.produce(1)
    assert len(await poll(await harness.consumer())) == 1


async def test_subscription_and_poll_multiple(harness: Harness) -> None:
    other = await harness.new_topic()
    consumer = await harness.consumer()
    for topic in (harness.topic, other, harness.topic):
        await consumer.subscribe([topic])
        await harness.produce(1, topic)
        (record,) = await poll(consumer)
        assert record.topic == topic
        record.accept()


async def test_subscription_to_several_topics(harness: Harness) -> None:
    topics = [harness.topic, *[await harness.new_topic(2) for _ in range(3)]]
    consumer = await harness.consumer(topics=topics)
    for topic in topics:
        await harness.produce(3, topic)
    taken = await poll_records(consumer, 12, accept=True)
    assert sorted(record.topic for record in taken) == sorted(topics * 3)


async def test_subscription_followed_by_topic_creation(harness: Harness) -> None:
    missing = f"{harness.topic}-later"
    consumer = await harness.consumer(topics=[missing])
    assert await is_idle(consumer)
    await harness.admin.create_topic(missing)
    await harness.produce(1, missing)
    assert [record.topic for record in await poll(consumer)] == [missing]


async def test_subscription_and_poll_followed_by_topic_deletion(harness: Harness) -> None:
    other = await harness.new_topic()
    consumer = await harness.consumer(topics=[harness.topic, other])
    await harness.produce(1)
    await harness.produce(1, other)
    await poll_records(consumer, 2, accept=True)
    await harness.admin.delete_topic(harness.topic)
    await harness.produce(1, other)
    assert [record.topic for record in await poll_records(consumer, 1)] == [other]


async def test_recreated_topic_is_a_new_topic(harness: Harness) -> None:
    consumer = await harness.consumer()
    await harness.produce(2)
    await poll_records(consumer, 2, accept=True)
    await harness.admin.delete_topic(harness.topic)
    await harness.admin.create_topic(harness.topic)
    await harness.produce(1)
    assert [record.offset for record in await poll_records(consumer, 1)] == [0]


async def test_subscribe_on_invalid_topic_throws_invalid_topic_exception(harness: Harness) -> None:
    consumer = await harness.consumer(topics=[])
    with pytest.raises(KafkaError) as caught:
        await consumer.subscribe(["topic abc"])
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_poll_throws_interrupt_exception_if_interrupted(harness: Harness) -> None:
    """Python interrupts a task by cancelling it."""
    consumer = await harness.consumer()
    polling = asyncio.create_task(consumer.poll(30))
    await asyncio.sleep(0)
    polling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await polling
    await harness.produce(1)
    assert len(await poll(consumer)) == 1


async def test_wakeup_with_fetched_records_available(harness: Harness) -> None:
    await harness.produce(1)
    consumer = await harness.consumer()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        await consumer.poll(5.0)
    assert len(await poll(consumer)) == 1


async def test_wakeup_interrupts_a_waiting_poll(harness: Harness) -> None:
    consumer = await harness.consumer()
    polling = asyncio.create_task(consumer.poll(30.0))
    await asyncio.sleep(0)
    consumer.wakeup()
    with pytest.raises(WakeupError):
        await polling
