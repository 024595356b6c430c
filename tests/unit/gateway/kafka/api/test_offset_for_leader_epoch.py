"""OffsetForLeaderEpoch: every epoch ends at the log end offset."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC
from sharebroker_server.kafka_wire.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness


def request(*epochs: int, name: str = TOPIC.name, current: int = -1) -> OffsetForLeaderEpochRequest:
    partitions = [
        OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
            partition=index, current_leader_epoch=current, leader_epoch=epoch
        )
        for index, epoch in enumerate(epochs)
    ]
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=name, partitions=partitions)
    return OffsetForLeaderEpochRequest(topics=[topic])


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_each_partition_has_its_own_result(harness: Harness, version: int) -> None:
    harness.services.reply_each("ListOffsets", pb.ListOffsetsResponse, offset=9)
    (topic,) = (await harness.call(version, request(2, -1, 2), OffsetForLeaderEpochResponse)).topics
    assert topic.topic == TOPIC.name
    found = [(one.partition, one.error_code, one.leader_epoch, one.end_offset) for one in topic.partitions]
    assert found == [
        (0, ErrorCode.NONE, 2, 9),
        (1, ErrorCode.NONE, -1, -1),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ]
    sent = harness.services.only("ListOffsets")
    assert [(one.partition, one.timestamp) for one in sent.partitions] == [(0, -1), (1, -1)]


async def test_internal_topics_are_looked_up_at_their_coordinators(harness: Harness) -> None:
    harness.services.reply("FindGroupLogOffset", state.FindShareGroupStateOffsetResponse(offset=7))
    response = await harness.call(4, request(2, name=OFFSETS_TOPIC), OffsetForLeaderEpochResponse)
    assert response.topics[0].partitions[0].end_offset == 7


@pytest.mark.parametrize(
    ("current", "code"), [(2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
async def test_leader_epochs_are_checked(harness: Harness, current: int, code: ErrorCode) -> None:
    response = await harness.call(4, request(2, current=current), OffsetForLeaderEpochResponse)
    assert response.topics[0].partitions[0].error_code == code
