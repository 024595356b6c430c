"""ListOffsets: offsets by timestamp, special timestamps by version, errors per partition."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC
from sharebroker_server.kafka_wire.messages import ListOffsetsRequest, ListOffsetsResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness, codes

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


def request(*indexes: int, timestamp: int = LATEST, name: str = TOPIC.name) -> ListOffsetsRequest:
    partition = ListOffsetsRequest.ListOffsetsPartition
    partitions = [partition(partition_index=index, timestamp=timestamp) for index in indexes]
    topic = ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=partitions)
    return ListOffsetsRequest(topics=[topic], isolation_level=1)


async def test_each_partition_has_its_own_result(harness: Harness) -> None:
    harness.services.reply_each("ListOffsets", pb.ListOffsetsResponse, offset=9, timestamp=1000)
    (topic,) = (await harness.call(5, request(1, 7), ListOffsetsResponse)).topics
    found, unknown = topic.partitions
    assert (found.partition_index, found.offset, found.timestamp, found.leader_epoch) == (1, 9, 1000, 3)
    assert (unknown.partition_index, unknown.offset) == (7, -1)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    sent = harness.services.only("ListOffsets")
    assert sent.isolation_level == 1
    assert [(one.topic_id, one.partition, one.timestamp) for one in sent.partitions] == [
        (TOPIC.topic_id, 1, LATEST)
    ]


@pytest.mark.parametrize(
    ("timestamp", "first", "meant"),
    [
        (LATEST, 1, LATEST),
        (EARLIEST, 1, EARLIEST),
        (MAX_TIMESTAMP, 7, MAX_TIMESTAMP),
        (EARLIEST_LOCAL, 8, EARLIEST),
    ],
)
async def test_special_timestamps_have_a_first_version(
    harness: Harness, timestamp: int, first: int, meant: int
) -> None:
    harness.services.reply_each("ListOffsets", pb.ListOffsetsResponse, offset=9)
    message = request(0, timestamp=timestamp)
    if first > 1:
        early = await harness.call(first - 1, message, ListOffsetsResponse)
        assert codes(early.topics[0].partitions) == {0: ErrorCode.UNSUPPORTED_VERSION}
    (found,) = (await harness.call(first, message, ListOffsetsResponse)).topics[0].partitions
    assert (found.error_code, found.offset) == (ErrorCode.NONE, 9)
    assert harness.services.only("ListOffsets").partitions[0].timestamp == meant


async def test_tiered_storage_has_no_offsets(harness: Harness) -> None:
    harness.services.reply_each("ListOffsets", pb.ListOffsetsResponse, offset=9)
    response = await harness.call(9, request(0, timestamp=LATEST_TIERED), ListOffsetsResponse)
    (found,) = response.topics[0].partitions
    assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.NONE, -1, -1)


async def test_internal_topics_are_looked_up_at_their_coordinators(harness: Harness) -> None:
    found = state.FindShareGroupStateOffsetResponse(offset=7, timestamp=1000)
    harness.services.reply("FindGroupLogOffset", found)
    response = await harness.call(5, request(3, name=OFFSETS_TOPIC), ListOffsetsResponse)
    (partition,) = response.topics[0].partitions
    assert (partition.offset, partition.timestamp) == (7, 1000)
    sent = harness.services.only("FindGroupLogOffset")
    assert (sent.shard, sent.timestamp) == (3, LATEST)


async def test_a_partition_named_twice_is_rejected(harness: Harness) -> None:
    response = await harness.call(5, request(0, 0), ListOffsetsResponse)
    assert [one.error_code for one in response.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2


async def test_another_leader_is_an_error(harness: Harness) -> None:
    harness.lead_elsewhere()
    response = await harness.call(5, request(0), ListOffsetsResponse)
    assert codes(response.topics[0].partitions) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
