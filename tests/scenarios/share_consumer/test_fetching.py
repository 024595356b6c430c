"""Fetch sizes and formats.

Left out: testPollRecordsGreaterThanMaxBytes (a stream has no byte limit), testControlRecordsSkipped (no
transactions).
"""

from __future__ import annotations

import json

from sharebroker import Producer, ProducerConfig
from sharebroker.records.record import Record
from tests.scenarios.share_consumer.world import (
    World,
    accept_all,
    nothing_comes,
    offsets,
    poll,
    take,
)


def test_fetch_record_larger_than_max_partition_fetch_bytes(world: World) -> None:
    value = b"x" * 900_000
    with Producer(world.server, ProducerConfig(max_request_size=1_000_000)) as producer:
        producer.publish(world.topic, b"small")
        producer.publish(world.topic, value)
    consumer = world.consumer(world.new_group())
    assert [record.value for record in take(consumer, 2, accept=True)] == [b"small", value]


def test_max_poll_records(world: World) -> None:
    for n in range(100):
        world.produce(1, key=b"key %d" % n, timestamp_ms=1_700_000_000_000 + n)
    consumer = world.consumer(world.new_group(), max_poll_records=2)
    records = take(consumer, 100, accept=True)
    assert offsets(records) == list(range(100))
    assert [record.timestamp for record in records] == [1_700_000_000_000 + n for n in range(100)]
    assert records[42].key == b"key 42"


def test_headers(world: World) -> None:
    world.produce(1, headers=[("first", b"1"), ("second", None), ("first", b"2")])
    (record,) = poll(world.consumer(world.new_group()))
    assert record.headers == [("first", b"1"), ("second", None), ("first", b"2")]


def test_headers_serialize_deserialize(world: World) -> None:
    def decode(record: Record) -> object:
        encoding = dict(record.headers)["encoding"] or b"utf-8"
        return json.loads((record.value or b"").decode(encoding.decode()))

    with Producer(world.server) as producer:
        producer.publish(world.topic, '"é"'.encode("latin-1"), headers=[("encoding", b"latin-1")])
    (record,) = poll(world.consumer(world.new_group(), deserializer=decode))
    assert record.data == "é"


def test_poll_in_batch_optimized_mode(world: World) -> None:
    world.produce(10)
    consumer = world.consumer(world.new_group(), max_poll_records=5)
    assert offsets(poll(consumer)) == list(range(10))


def test_poll_in_record_limit_mode(world: World) -> None:
    world.produce(10)
    consumer = world.consumer(world.new_group(), max_poll_records=5, share_acquire_mode="record_limit")
    for expected in (range(5), range(5, 10)):
        records = poll(consumer)
        assert offsets(records) == list(expected)
        accept_all(records)


def test_poll_and_explicit_acknowledge_single_message_in_record_limit_mode(world: World) -> None:
    world.produce(10)
    consumer = world.consumer(world.new_group(), max_poll_records=1, share_acquire_mode="record_limit")
    for offset in range(10):
        (record,) = poll(consumer)
        assert record.offset == offset
        record.accept()
    assert nothing_comes(consumer)


def test_explicit_acknowledge_success_in_record_limit_mode(world: World) -> None:
    world.produce(20)
    group = world.new_group()
    consumer = world.consumer(group, max_poll_records=10, share_acquire_mode="record_limit")
    accept_all(poll(consumer))
    assert all(result.error is None for result in consumer.commit())
    assert offsets(poll(consumer)) == list(range(10, 20))


def test_explicit_acknowledge_release_accept_in_record_limit_mode(world: World) -> None:
    world.produce(2)
    consumer = world.consumer(
        world.new_group(), max_poll_records=1, prefetch_records=0, share_acquire_mode="record_limit"
    )
    (record,) = poll(consumer)
    record.release().result(5)
    (again,) = poll(consumer)
    assert (again.offset, again.delivery_count) == (0, 2)
    again.accept()
    (following,) = poll(consumer)
    assert following.offset == 1
    following.accept()
    assert nothing_comes(consumer)
