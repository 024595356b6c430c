"""Message ids in the records of librdkafka's producers, for share groups and plain consumers."""

from __future__ import annotations

import asyncio

import confluent_kafka
import pytest

from sharebroker_protocol.model import MESSAGE_ID_HEADER
from tests.integration.kafka.harness import Harness
from tests.integration.kafka.test_transactions import read
from tests.support.client import TIMEOUT, unique


def publish(address: str, topic: str, ids: str, codec: str, **settings: str | bool) -> list[int]:
    """Publishes a record for each id, in one batch; returns their offsets."""
    names = {name.replace("_", "."): value for name, value in settings.items()}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 200, **names}
    )
    offsets: list[int] = []

    def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        assert error is None, error
        offsets.append(message.offset() or 0)

    for each in ids:
        headers: list[tuple[str, str | bytes | None]] = [(MESSAGE_ID_HEADER, each)]
        producer.produce(topic, each.encode() * 50, partition=0, headers=headers, on_delivery=delivered)
    assert producer.flush(TIMEOUT) == 0
    return offsets


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("idempotence", [False, True])
async def test_another_producer_repeats_records(harness: Harness, codec: str, idempotence: bool) -> None:
    topic, _ = await harness.client.create(1, message_dedup_window_ms="60000")
    group = await harness.client.group()

    def run() -> list[list[int]]:
        batches = ("abc", "abc", "bcd", "e")
        return [
            publish(harness.address, topic, ids, codec, enable_idempotence=idempotence) for ids in batches
        ]

    assert await asyncio.to_thread(run) == [[0, 1, 2], [0, 1, 2], [3, 4, 5], [6]]
    values = await asyncio.to_thread(read, harness.address, topic, "read_committed", 7)
    assert [value[0] for value in values] == list("abcbcde")
    got = await harness.client.acquire_all(group, topic, 5, unique("member"))
    assert [record.offset for record in got] == [0, 1, 2, 5, 6]
