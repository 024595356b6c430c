"""Requests about the offsets of logs, which their leaders serve."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness, codes
from tests.unit.gateway.kafka.forwarding.harness import FakeUpstream


async def test_records_are_deleted_at_the_leader(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=1, offset=4)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=TOPIC.name, partitions=[part])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=3000)
    upstream.reply = lambda _, sent: DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(
                name=TOPIC.name,
                partitions=[
                    DeleteRecordsResponse.DeleteRecordsPartitionResult(
                        partition_index=1, low_watermark=sent.topics[0].partitions[0].offset
                    )
                ],
            )
        ]
    )
    response = await harness.call(2, request, DeleteRecordsResponse)
    assert response.topics[0].partitions[0].low_watermark == 4
    assert upstream.waits == [3.0]
    authorizer.deny(AclOperation.DELETE, AclResourceType.TOPIC)
    response = await harness.call(2, request, DeleteRecordsResponse)
    assert codes(response.topics[0].partitions) == {1: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert len(upstream.sent) == 1


async def test_the_end_of_an_epoch_is_that_of_the_leader(harness: Harness, upstream: FakeUpstream) -> None:
    part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=1, current_leader_epoch=6, leader_epoch=2
    )
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=TOPIC.name, partitions=[part])
    result = OffsetForLeaderEpochResponse.EpochEndOffset(partition=1, leader_epoch=2, end_offset=9)
    upstream.reply = lambda *_: OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=TOPIC.name, partitions=[result])
        ]
    )
    request = OffsetForLeaderEpochRequest(replica_id=4, topics=[topic])
    response = await harness.call(4, request, OffsetForLeaderEpochResponse)
    assert response.topics[0].partitions[0].end_offset == 9
    ((node, sent),) = upstream.sent
    assert (node, sent.replica_id, sent.topics[0].partitions[0].current_leader_epoch) == (2, -1, 6)
