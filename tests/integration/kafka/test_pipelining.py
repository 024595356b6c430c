"""Pipelined requests of one client: served in order, answered in order."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness
from tests.integration.kafka.logs import fetch_one, values
from tests.support.kafka_client import KafkaClient, part
from tests.unit.record_log.batches import batch

PRODUCE, METADATA, INIT_PRODUCER_ID = 0, 3, 22
VERSION = 9


def send(kafka: KafkaClient, topic: str, records: bytes, *, index: int = 0, acks: int = -1) -> int:
    """Sends a Produce request of one partition; returns its correlation id."""
    data = part(PRODUCE, "PartitionProduceData", index=index, records=records)
    topics = [part(PRODUCE, "TopicProduceData", name=topic, partition_data=[data])]
    return kafka.send(PRODUCE, VERSION, acks=acks, timeout_ms=20_000, topic_data=topics)


async def appended(kafka: KafkaClient) -> tuple[int, int, int]:
    """Returns the next response: its correlation id, the error and the offset of its only partition."""
    response: Any
    number, response = await kafka.answer(PRODUCE, VERSION)
    (result,) = response.responses[0].partition_responses
    return number, result.error_code, result.base_offset


async def test_pipelined_batches_are_appended_in_order(harness: Harness, kafka: KafkaClient) -> None:
    topic, topic_id = await harness.client.create()
    sizes = [1 + number % 7 for number in range(200)]
    sent = [send(kafka, topic, batch(1, size)) for size in sizes]
    responses = [await appended(kafka) for _ in sent]
    assert responses == [(number, 0, offset) for offset, number in enumerate(sent)]
    read = values((await fetch_one(kafka, topic, topic_id, 0)).records)
    assert [len(value or b"") for _, value in read] == sizes


async def test_responses_to_interleaved_requests_are_in_order(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    numbers = []
    for _ in range(20):
        numbers += [send(kafka, topic, batch(1)), send(kafka, topic, batch(1))]
        numbers.append(kafka.send(METADATA, 12, topics=[]))
    received = []
    for _ in range(20):
        received += [(await appended(kafka))[0], (await appended(kafka))[0]]
        received.append((await kafka.answer(METADATA, 12))[0])
    assert received == numbers


async def test_failed_request_does_not_fail_pipelined_ones(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    broken = bytearray(batch(1))
    broken[-1] ^= 1
    for records, index in ((batch(1), 0), (bytes(broken), 0), (batch(1), 7), (batch(1), 0)):
        send(kafka, topic, records, index=index)
    errors = [(await appended(kafka))[1:] for _ in range(4)]
    assert errors == [
        (0, 0),
        (ErrorCode.CORRUPT_MESSAGE, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (0, 1),
    ]


async def test_idempotent_sequences_hold_when_pipelined(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    initialized = await kafka.ask(INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=0)
    producer = initialized.producer_id
    for sequence in (0, 1, 2, 2, 9, 3):
        send(kafka, topic, batch(1, producer=(producer, 0, sequence)))
    responses = [(await appended(kafka))[1:] for _ in range(6)]
    assert responses == [(0, 0), (0, 1), (0, 2), (0, 2), (ErrorCode.KAFKA_STORAGE_ERROR, -1), (0, 3)]


async def test_produce_without_acks_precedes_the_next_request(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    for _ in range(50):
        send(kafka, topic, batch(1), acks=0)
    last = send(kafka, topic, batch(1))
    assert await appended(kafka) == (last, 0, 50)


async def test_produce_without_acks_survives_a_disconnect(harness: Harness, kafka: KafkaClient) -> None:
    topic, topic_id = await harness.client.create()
    async with harness.connect() as hasty:
        for _ in range(50):
            send(hasty, topic, batch(1), acks=0)
        await hasty.close()
        assert await hasty.is_closed()
    found = await fetch_one(kafka, topic, topic_id, 0, max_wait_ms=20_000, min_bytes=50 * len(batch(1)))
    assert len(values(found.records)) == 50
