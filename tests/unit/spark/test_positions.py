"""Start and end offsets of topics."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.rpc.errors import wire
from sharebroker_spark.positions import log_spans
from tests.unit.spark.fake_client import FakeClient

PARTITIONS = {"a": 2, "b": 1}
EARLIEST, COMMITTED = -2, 1


def metadata(request: admin.MetadataRequest) -> admin.MetadataResponse:
    response = admin.MetadataResponse()
    for name in request.topics:
        topic = response.topics.add(name=name, topic_id=name.upper())
        if name not in PARTITIONS:
            topic.error_code = wire(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for index in range(PARTITIONS.get(name, 0)):
            topic.partitions.add(partition_index=index)
    return response


def offsets(request: leader.ListOffsetsRequest) -> leader.ListOffsetsResponse:
    """Every log begins at its partition number and has ten records."""
    response = leader.ListOffsetsResponse()
    for asked in reversed(request.partitions):
        offset = asked.partition + (0 if asked.timestamp == EARLIEST else 10)
        response.partitions.add(topic_id=asked.topic_id, partition=asked.partition, offset=offset)
    return response


def test_every_partition_has_its_first_and_last_stable_offset() -> None:
    fake = FakeClient(Metadata=metadata, ListOffsets=offsets)
    assert log_spans(fake.client, ["a", "b"]) == {("a", 0): (0, 10), ("a", 1): (1, 11), ("b", 0): (0, 10)}
    assert [request.isolation_level for request in fake.requests[1:]] == [COMMITTED, COMMITTED]


def test_an_unknown_topic_is_named() -> None:
    fake = FakeClient(Metadata=metadata, ListOffsets=offsets)
    with pytest.raises(KafkaError, match="Topic 'c' does not exist") as caught:
        log_spans(fake.client, ["a", "c"])
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_without_offset_is_an_error() -> None:
    def failing(request: leader.ListOffsetsRequest) -> leader.ListOffsetsResponse:
        response = offsets(request)
        response.partitions[0].error_code = wire(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        response.partitions[0].error_message = "moved"
        return response

    with pytest.raises(KafkaError, match="moved") as caught:
        log_spans(FakeClient(Metadata=metadata, ListOffsets=failing).client, ["a"])
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
