"""Fetch sizes and formats (ShareConsumerTest; reference of the scenarios: README.md)."""

from __future__ import annotations

import json

from sharebroker import ProducerConfig, Record
from sharebroker.aio import Producer
from tests.integration.share_consumer.harness import Harness, accept_all, is_idle, offsets, poll, poll_records


async def test_fetch_record_larger_than_max_partition_fetch_bytes(harness: Harness) -> None:
    """No property keeps a record from being delivered, whatever size a broker accepts."""
    value = b"x" * 1_000_000
    async with Producer(harness.server, ProducerConfig(max_request_size=1_040_000)) as producer:
        await producer.publish(harness.topic, b"small")
        await producer.publish(harness.topic, value)
    consumer = await harness.consumer(max_poll_records=1, prefetch_records=0)
    assert [record.value for record in await poll_records(consumer, 2, accept=True)] == [b"small", value]


async def test_max_poll_records(harness: Harness) -> None:
    first = 1_700_000_000_000
    for n in range(300):
        await harness.produce(1, key=b"key %d" % n, timestamp_ms=first + n)
    consumer = await harness.consumer(max_poll_records=2)
    records: list[Record] = []
    while len(records) < 300:
        few = await poll(consumer)
        assert len(few) <= 2
        accept_all(few)
        records += few
    assert offsets(records) == list(range(300))
    assert [record.timestamp for record in records] == [first + n for n in range(300)]
    assert [record.key for record in records] == [b"key %d" % n for n in range(300)]


async def test_held_records_do_not_exceed_limits(harness: Harness) -> None:
    """A consumer that does not poll again holds one poll and the prefetched records at most."""
    await harness.produce_singly(100)
    group = await harness.new_group()
    slow = await harness.consumer(group, max_poll_records=10, prefetch_records=5)
    held = await poll(slow)
    assert 1 <= len(held) <= 10
    fast = await harness.consumer(group)
    taken: list[int] = []

    async def take_until(count: int) -> None:
        while len(taken) < count:
            records = await poll(fast)
            accept_all(records)
            taken.extend(offsets(records))

    await take_until(85)
    assert set(taken).isdisjoint(offsets(held))
    await slow.close()
    await take_until(100)
    assert sorted(taken) == list(range(100))


async def test_headers(harness: Harness) -> None:
    headers = [("first", b"1"), ("second", None), ("first", b"2")]
    await harness.produce(1, headers=headers)
    (record,) = await poll(await harness.consumer())
    assert record.headers == headers


def in_its_encoding(record: Record) -> object:
    encoding = dict(record.headers)["encoding"] or b"utf-8"
    return json.loads((record.value or b"").decode(encoding.decode()))


async def test_headers_serializer_deserializer(harness: Harness) -> None:
    """A deserialiser receives the headers."""
    async with Producer(harness.server) as producer:
        await producer.publish(harness.topic, '"é"'.encode("latin-1"), headers=[("encoding", b"latin-1")])
    (record,) = await poll(await harness.consumer(deserializer=in_its_encoding))
    assert record.data == "é"


async def test_poll_in_batch_optimized_mode(harness: Harness) -> None:
    await harness.produce(10)
    consumer = await harness.consumer(max_poll_records=5)
    assert offsets(await poll(consumer)) == list(range(10))


async def test_poll_in_record_limit_mode(harness: Harness) -> None:
    await harness.produce(10)
    consumer = await harness.consumer(max_poll_records=5, share_acquire_mode="record_limit")
    for expected in (range(5), range(5, 10)):
        records = await poll(consumer)
        assert offsets(records) == list(expected)
        accept_all(records)
    assert await is_idle(consumer)


async def test_poll_and_explicit_acknowledge_single_message_in_record_limit_mode(harness: Harness) -> None:
    await harness.produce(10)
    consumer = await harness.consumer(max_poll_records=1, share_acquire_mode="record_limit")
    for offset in range(10):
        (record,) = await poll(consumer)
        assert record.offset == offset
        record.accept()
    assert await is_idle(consumer)


async def test_explicit_acknowledge_success_in_record_limit_mode(harness: Harness) -> None:
    await harness.produce(20)
    consumer = await harness.consumer(max_poll_records=10, share_acquire_mode="record_limit")
    accept_all(await poll(consumer))
    assert all(result.error is None for result in await consumer.commit())
    records = await poll(consumer)
    assert offsets(records) == list(range(10, 20))
    accept_all(records)
    assert await is_idle(consumer)


async def test_explicit_acknowledge_release_accept_in_record_limit_mode(harness: Harness) -> None:
    await harness.produce(2)
    consumer = await harness.consumer(
        max_poll_records=1, prefetch_records=0, share_acquire_mode="record_limit"
    )
    (record,) = await poll(consumer)
    await record.release()
    (again,) = await poll(consumer)
    assert (again.offset, again.delivery_count) == (0, 2)
    again.accept()
    (following,) = await poll(consumer)
    assert following.offset == 1
    following.accept()
    assert await is_idle(consumer)
