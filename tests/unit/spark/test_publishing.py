"""The idempotent producer of a task."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from sharebroker_server.rpc.errors import wire
from sharebroker_spark.publishing import BATCH_BYTES, SinkTransaction, TaskPublisher, end
from tests.unit.spark.fake_client import FakeClient

PARTITIONS = 3


class Harness:
    """A gateway with topic "t"; `errors` are those of the next requests, by partition."""

    def __init__(self) -> None:
        self.fake = FakeClient(
            InitProducerId=lambda _: transactions.InitProducerIdResponse(producer_id=7, producer_epoch=1),
            Metadata=self.metadata,
            Produce=self.produce,
        )
        self.errors: list[dict[int, ErrorCode]] = []
        self.sent: list[dict[int, bytes]] = []

    def metadata(self, request: admin.MetadataRequest) -> admin.MetadataResponse:
        response = admin.MetadataResponse()
        (name,) = request.topics
        topic = response.topics.add(name=name)
        if name != "t":
            topic.error_code = wire(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for index in range(PARTITIONS):
            topic.partitions.add(partition_index=index)
        return response

    def produce(self, request: pb.ProduceRequest) -> pb.ProduceResponse:
        response, errors = pb.ProduceResponse(), self.errors.pop(0) if self.errors else {}
        for topic in request.topic_data:
            self.sent.append({part.index: part.records for part in topic.partition_data})
            answer = response.responses.add(name=topic.name)
            for part in topic.partition_data:
                code = wire(errors.get(part.index, ErrorCode.NONE))
                answer.partition_responses.add(index=part.index, error_code=code)
        return response


@pytest.fixture
def harness() -> Harness:
    return Harness()


def header(data: bytes) -> tuple[int, int, int, int, bool]:
    """Returns producer id, epoch, base sequence, record count, and whether the batch is transactional."""
    batch: Any = MemoryRecords(data).next_batch()
    count = len(list(batch))
    return batch.producer_id, batch.producer_epoch, batch.base_sequence, count, batch.is_transactional


def test_sequences_continue_over_the_batches_of_a_partition(harness: Harness) -> None:
    publisher = TaskPublisher(harness.fake.client)
    for _ in range(2):
        for partition in (0, 0, 2):
            publisher.send("t", b"value", b"key", partition=partition)
        publisher.flush()
    headers = [{index: header(data) for index, data in request.items()} for request in harness.sent]
    assert headers == [
        {0: (7, 1, 0, 2, False), 2: (7, 1, 0, 1, False)},
        {0: (7, 1, 2, 2, False), 2: (7, 1, 1, 1, False)},
    ]
    assert (publisher.records, publisher.bytes, publisher.transaction) == (6, 48, None)


def test_a_flush_without_records_sends_nothing(harness: Harness) -> None:
    TaskPublisher(harness.fake.client).flush()
    assert harness.sent == []


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR])
def test_only_failed_partitions_are_sent_again_with_the_same_bytes(harness: Harness, code: ErrorCode) -> None:
    harness.errors = [{1: code}, {1: ErrorCode.DUPLICATE_SEQUENCE_NUMBER}]
    publisher = TaskPublisher(harness.fake.client)
    for partition in (0, 1):
        publisher.send("t", b"value", partition=partition)
    publisher.flush()
    first, second = harness.sent
    assert set(first) == {0, 1}
    assert second == {1: first[1]}


def test_a_permanent_error_names_the_partition(harness: Harness) -> None:
    harness.errors = [{1: ErrorCode.INVALID_RECORD}]
    publisher = TaskPublisher(harness.fake.client)
    publisher.send("t", b"value", partition=1)
    with pytest.raises(KafkaError, match="t-1: A record is invalid") as caught:
        publisher.flush()
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_key_determines_the_partition(harness: Harness) -> None:
    publisher = TaskPublisher(harness.fake.client)
    for _ in range(5):
        publisher.send("t", b"value", b"key")
    publisher.flush()
    assert [len(request) for request in harness.sent] == [1]


@pytest.mark.parametrize("partition", [-1, PARTITIONS])
def test_a_partition_outside_the_topic_is_rejected(harness: Harness, partition: int) -> None:
    with pytest.raises(KafkaError, match=f"Column partition is {partition}; topic 't' has 0 to 2"):
        TaskPublisher(harness.fake.client).send("t", b"value", partition=partition)


@pytest.mark.parametrize(("topic", "text"), [("u", "Topic 'u' does not exist"), ("", "A row has no topic")])
def test_an_unknown_topic_is_rejected(harness: Harness, topic: str, text: str) -> None:
    with pytest.raises(KafkaError, match=text) as caught:
        TaskPublisher(harness.fake.client).send(topic, b"value")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_full_batch_is_sent_before_the_next_record(harness: Harness) -> None:
    publisher = TaskPublisher(harness.fake.client)
    for _ in range(3):
        publisher.send("t", bytes(BATCH_BYTES // 2 - 1000), partition=0)
    assert [header(request[0])[3] for request in harness.sent] == [2]
    publisher.flush()
    assert [header(request[0])[2] for request in harness.sent] == [0, 2]


def test_rows_with_a_transactional_id_form_one_transaction(harness: Harness) -> None:
    publisher = TaskPublisher(harness.fake.client, "query-0", 5_000)
    request = harness.fake.requests[0]
    assert (request.transactional_id, request.transaction_timeout_ms) == ("query-0", 5_000)
    assert publisher.transaction is None
    publisher.send("t", b"value", partition=0)
    publisher.flush()
    assert publisher.transaction == SinkTransaction("query-0", 7, 1)
    assert header(harness.sent[0][0])[4]
    assert harness.fake.requests[-1].transactional_id == "query-0"


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_is_ended_by_its_identification(committed: bool) -> None:
    fake = FakeClient(EndTxn=lambda _: None)
    end(fake.client, SinkTransaction("query-0", 7, 1), committed=committed)
    (request,) = fake.requests
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("query-0", 7, 1)
    assert request.committed is committed
