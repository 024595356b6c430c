"""Idempotent and transactional producers as raw requests: sequences, epochs, both protocols."""

from __future__ import annotations

import pytest

from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.topics import STATE_TOPIC
from tests.integration.kafka.harness import Harness
from tests.integration.kafka.logs import fetch_one, list_offset
from tests.integration.kafka.producers import EXPLICIT, IMPLICIT, Writer, writer
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient, part
from tests.unit.record_log.batches import batch

DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 61, 65, 66

FINE = ErrorCode.NONE


async def test_sequences_are_checked_and_duplicates_acknowledged(
    harness: Harness, kafka: KafkaClient
) -> None:
    one = await writer(harness, kafka, transactional=False)
    assert one.producer[1] == 0
    assert [await one.write(n) for n in (0, 1, 2)] == [(FINE, 0), (FINE, 1), (FINE, 2)]
    assert await one.write(1) == (FINE, 1)
    assert await one.write(4) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)  # retriable: 3 may still come
    assert await one.write(3) == (FINE, 3)
    assert await one.write(0, producer=(one.producer[0], 1)) == (FINE, 4)
    assert await one.write(4) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    other = Writer(kafka, one.topic, one.topic_id)
    await other.init()
    assert other.producer[0] != one.producer[0]
    assert await other.write(0) == (FINE, 5)


async def test_transaction_with_explicitly_added_partitions(harness: Harness, kafka: KafkaClient) -> None:
    one = await writer(harness, kafka)
    assert (await one.write(0, EXPLICIT))[0] is ErrorCode.TRANSACTION_ABORTABLE
    assert (await one.write(0, 10))[0] is ErrorCode.INVALID_TXN_STATE
    assert await one.add() is FINE
    assert await one.write(0, EXPLICIT) == (FINE, 0)
    assert await one.stable() == (0, 1)
    assert await one.end(commit=True, version=3) is FINE
    assert await one.end(commit=True, version=3) is FINE
    assert await one.end(commit=False, version=3) is ErrorCode.INVALID_TXN_STATE
    assert await one.add() is FINE  # which waits for the marker
    assert await one.stable() == (2, 2)
    assert await one.write(1, EXPLICIT) == (FINE, 2)
    assert await one.end(commit=False, version=3) is FINE


async def test_transaction_with_partitions_added_by_the_leader(harness: Harness, kafka: KafkaClient) -> None:
    one = await writer(harness, kafka)
    first = one.producer
    assert await one.write(0) == (FINE, 0)
    assert await one.write(1, IMPLICIT + 1) == (FINE, 1)
    assert await one.end(commit=True) is FINE
    assert one.producer == (first[0], first[1] + 1)
    assert await one.write(0) == (FINE, 3)
    assert (await one.write(2, producer=first))[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await one.end(commit=False) is FINE
    assert await one.init() is FINE
    assert await one.stable() == (5, 5)
    response = await fetch_one(kafka, one.topic, one.topic_id, 0, isolation_level=1)
    assert [(t.producer_id, t.first_offset) for t in response.aborted_transactions] == [(first[0], 3)]


async def test_read_committed_stops_before_open_transactions(harness: Harness, kafka: KafkaClient) -> None:
    one = await writer(harness, kafka)
    await one.write(0)
    assert (await list_offset(kafka, one.topic, -1)).offset == 1
    asked = part(2, "ListOffsetsPartition", partition_index=0, timestamp=-1)
    topics = [part(2, "ListOffsetsTopic", name=one.topic, partitions=[asked])]
    response = await kafka.ask(2, 11, replica_id=-1, isolation_level=1, topics=topics)
    assert response.topics[0].partitions[0].offset == 0


async def test_fenced_producer_gets_the_error_of_its_version(harness: Harness, kafka: KafkaClient) -> None:
    zombie = await writer(harness, kafka)
    number, epoch = zombie.producer
    await zombie.init()
    zombie.producer = (number, epoch)
    before, since = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED
    assert [await zombie.add(version) for version in range(4)] == [before] * 2 + [since] * 2
    assert [await zombie.end(True, version) for version in range(6)] == [before] * 2 + [since] * 4
    again = [await zombie.init(v, producer_id=number, producer_epoch=epoch) for v in (3, 4, 5)]
    assert again == [before, since, since]


async def test_invalid_producer_requests_are_rejected(harness: Harness, kafka: KafkaClient) -> None:
    one = await writer(harness, kafka)
    assert await one.init(transaction_timeout_ms=10**9) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await one.init(transactional_id="") is ErrorCode.INVALID_REQUEST
    assert await one.init(producer_id=1) is ErrorCode.INVALID_REQUEST
    assert await one.init(transactional_id=None, producer_epoch=1) is ErrorCode.INVALID_REQUEST
    stranger = Writer(kafka, one.topic, one.topic_id, unique("stranger"), (10**9, 0))
    assert await stranger.end(commit=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await stranger.add() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (await stranger.write(0))[0] is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", [3, 9, 13])
async def test_second_batch_for_a_partition_is_rejected(
    harness: Harness, kafka: KafkaClient, version: int
) -> None:
    one = await writer(harness, kafka, transactional=False)
    assert await one.send(batch(2) + batch(1), version) == (ErrorCode.INVALID_RECORD, -1)
    assert await one.send(batch(2), version) == (ErrorCode.NONE, 0)


async def test_timestamps_far_ahead_are_rejected(harness: Harness, kafka: KafkaClient) -> None:
    """Kafka allows an hour unless the topic overrides it; the age of a record does not matter."""
    one = await writer(harness, kafka, transactional=False)
    now = round(clock.now() * 1000)
    assert await one.send(batch(1, time=now + 7_200_000)) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert await one.send(batch(1, time=now + 1_800_000)) == (ErrorCode.NONE, 0)
    assert await one.send(batch(1, time=0)) == (ErrorCode.NONE, 1)


async def test_zero_topic_id_is_unknown(harness: Harness, kafka: KafkaClient) -> None:
    one = await writer(harness, kafka, transactional=False)
    one.topic_id = ""
    assert await one.send(batch(1), 13) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


async def test_producers_and_transactions_are_described(harness: Harness, kafka: KafkaClient) -> None:
    one = await writer(harness, kafka)
    await one.write(0)
    asked = part(DESCRIBE_PRODUCERS, "TopicRequest", name=one.topic, partition_indexes=[0])
    internal = part(DESCRIBE_PRODUCERS, "TopicRequest", name=STATE_TOPIC, partition_indexes=[0, 50])
    response = await kafka.ask(DESCRIBE_PRODUCERS, 0, topics=[asked, internal])
    (producer,) = response.topics[0].partitions[0].active_producers
    assert [(one.error_code, one.active_producers) for one in response.topics[1].partitions] == [
        (0, []),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
    ]
    assert (producer.producer_id, producer.producer_epoch) == one.producer
    assert (producer.last_sequence, producer.current_txn_start_offset) == (0, 0)
    response = await kafka.ask(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[one.name, "absent"])
    shown, missing = response.transaction_states
    assert (shown.transaction_state, shown.producer_id) == ("Ongoing", one.producer[0])
    assert [(topic.topic, list(topic.partitions)) for topic in shown.topics] == [(one.topic, [0])]
    assert ErrorCode(missing.error_code) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    filters = {"state_filters": ["Ongoing"], "producer_id_filters": [one.producer[0]]}
    response = await kafka.ask(LIST_TRANSACTIONS, 1, **filters, duration_filter=-1)
    assert [state.transactional_id for state in response.transaction_states] == [one.name]
