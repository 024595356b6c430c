"""Publish: batches of single records."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.records.partitioner import partition_of
from sharebroker_server.rpc.errors import wire
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import UPSTREAM, move_upstream
from tests.unit.gateway.produce.requests import appending, records, refused


async def test_publish_partitions_records_like_a_kafka_producer(harness: Harness) -> None:
    harness.leader.answer = appending
    keys = [f"N{number}".encode() for number in range(20)]
    request = pb.PublishRequest(topic="flights", records=records(*((key, "x") for key in keys)))
    positions = (await harness.produce.Publish(request)).positions
    assert [position.partition for position in positions] == [partition_of(key, 2) for key in keys]
    for index in (0, 1):  # each partition's records are one run, in the order of the request
        offsets = [position.offset for position in positions if position.partition == index]
        assert offsets == list(range(100, 100 + len(offsets)))


async def test_publish_keeps_records_without_key_together(harness: Harness) -> None:
    chosen = pb.PublishRequest(topic="flights", records=[pb.PublishRecord(value=b"x", partition=1)])
    assert (await harness.produce.Publish(chosen)).positions[0].partition == 1
    keyless = pb.PublishRequest(topic="flights", records=records(*[(None, "x")] * 10))
    assert len({position.partition for position in (await harness.produce.Publish(keyless)).positions}) == 1


async def test_publish_returns_the_offset_of_each_original(harness: Harness) -> None:
    def duplicates(request: Any) -> Any:
        assert request.duplicate_offsets
        response = appending(request)
        for part in response.partitions:
            if part.partition == 1:
                part.offsets[:] = [17, 4]
        return response

    harness.leader.answer = duplicates
    some = [pb.PublishRecord(value=b"x", partition=index) for index in (1, 0, 1, 0)]
    positions = (await harness.produce.Publish(pb.PublishRequest(topic="flights", records=some))).positions
    assert [(position.partition, position.offset) for position in positions] == [
        (1, 17),
        (0, 100),
        (1, 4),
        (0, 101),
    ]


WRONG = [
    ([], "records", ErrorCode.INVALID_REQUEST),
    ([pb.PublishRecord()] * 10_001, "records", ErrorCode.INVALID_REQUEST),
    (
        [pb.PublishRecord(), pb.PublishRecord(partition=2)],
        "records[1].partition",
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    ([pb.PublishRecord(timestamp_ms=-1)], "records[0].timestamp_ms", ErrorCode.INVALID_RECORD),
    ([pb.PublishRecord(value=bytes(1_048_589))], "records[0]", ErrorCode.MESSAGE_TOO_LARGE),
]


@pytest.mark.parametrize(("some", "field", "code"), WRONG)
async def test_publish_rejects_invalid_records(
    harness: Harness, some: list[pb.PublishRecord], field: str, code: ErrorCode
) -> None:
    error = await refused(harness.produce.Publish(pb.PublishRequest(topic="flights", records=some)))
    assert error.code is code
    assert [violation.field for violation in error.violations] == [field]
    assert harness.leader.requests == []


async def test_publish_failure_reports_the_published_records(harness: Harness) -> None:
    def half(request: Any) -> Any:
        response = appending(request)
        for part in response.partitions:
            if part.partition == 1:
                part.error_code = wire(ErrorCode.KAFKA_STORAGE_ERROR)
        return response

    harness.leader.answer = half
    some = [pb.PublishRecord(value=b"x", partition=index) for index in (0, 1, 0)]
    error = await refused(harness.produce.Publish(pb.PublishRequest(topic="flights", records=some)))
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert error.metadata == {"published": "2", "failed_partitions": "1"}


async def test_publish_to_an_upstream_cluster_names_its_address(harness: Harness) -> None:
    move_upstream(harness.gateway.catalog)
    request = pb.PublishRequest(topic="flights", records=records((None, "x")))
    error = await refused(harness.produce.Publish(request))
    assert error.code == ErrorCode.POLICY_VIOLATION
    assert f"Topic 'flights' is in the Kafka cluster at {UPSTREAM}" in error.message
