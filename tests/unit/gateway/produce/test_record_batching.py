"""Record batches of published records, and their spans."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.model import MESSAGE_ID_HEADER
from sharebroker_protocol.records.partitioner import partition_of
from sharebroker_server.gateway.produce.record_batching import by_partition
from sharebroker_server.record_log.core.batch import header_of
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.produce.requests import refused
from tests.unit.protocol.tracing.test_tracer import TracedProcess


def test_records_keep_the_order_of_the_request() -> None:
    records = [pb.PublishRecord(partition=number % 2, text=str(number)) for number in range(5)]
    batches = by_partition(records, TOPIC, 1 << 20, None)
    assert {partition: found.indexes for partition, found in batches.items()} == {0: [0, 2, 4], 1: [1, 3]}


def test_records_beyond_the_batch_size_start_another_batch() -> None:
    records = [pb.PublishRecord(partition=0, value=bytes(600)) for _ in range(3)]
    (batches,) = by_partition(records, TOPIC, 1000, None).values()
    assert len(batches.builders) == 3
    data = batches.build()
    assert header_of(data).size < len(data)


def test_records_with_equal_keys_share_a_partition() -> None:
    records = [pb.PublishRecord(key=b"key", text=str(number)) for number in range(10)]
    assert len(by_partition(records, TOPIC, 1 << 20, None)) == 1


def test_a_message_id_is_a_header_and_chooses_the_partition_without_a_key() -> None:
    records = [pb.PublishRecord(message_id="id", text=str(number)) for number in range(10)]
    ((partition, batches),) = by_partition(records, TOPIC, 1 << 20, None).items()
    assert partition == partition_of(b"id", TOPIC.partitions)
    assert {tuple(record.headers) for record in DefaultRecordBatch(batches.build())} == {
        ((MESSAGE_ID_HEADER, b"id"),)
    }
    keyed = [pb.PublishRecord(message_id=f"id {number}", key=b"key") for number in range(10)]
    assert list(by_partition(keyed, TOPIC, 1 << 20, None)) == [partition_of(b"key", TOPIC.partitions)]


def test_a_message_id_that_is_too_long_names_its_field() -> None:
    records = [pb.PublishRecord(message_id="x" * 128), pb.PublishRecord(message_id="é" * 65)]
    with pytest.raises(KafkaError, match="The message id has 130 bytes; 1 to 128 are allowed") as rejected:
        by_partition(records, TOPIC, 1 << 20, None)
    assert rejected.value.code is ErrorCode.INVALID_RECORD
    assert [violation.field for violation in rejected.value.violations] == ["records[1].message_id"]


async def test_spans_of_a_cancelled_publish_end_with_an_error(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trace continues where the record is appended, below the span that created it."""
    process = TracedProcess(1.0)
    monkeypatch.setattr(tracing, "on", process.tracer)
    harness.leader.answer = lambda _: asyncio.Event().wait()
    some = [pb.PublishRecord(value=b"x", partition=index) for index in (0, 1)]
    call = harness.produce.Publish(pb.PublishRequest(topic="flights", records=some))
    waiting = asyncio.ensure_future(refused(call))
    await eventually(lambda: harness.leader.requests)
    waiting.cancel()
    await eventually(lambda: process.spans["create flights"] == 2)
    assert process.spans["send flights"] == 2
