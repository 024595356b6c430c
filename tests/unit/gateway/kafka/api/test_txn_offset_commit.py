"""TxnOffsetCommit: offsets of a transaction, each partition with its own result."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.kafka_wire.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness, codes


def request(*indexes: int, transactional_id: str = "t", by_id: bool = False) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
    partitions = [
        partition(
            partition_index=index, committed_offset=40, committed_leader_epoch=3, committed_metadata="x"
        )
        for index in indexes
    ]
    named = {"topic_id": TOPIC.topic_id} if by_id else {"name": TOPIC.name}
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(partitions=partitions, **named)
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id, group_id="g", producer_id=5, producer_epoch=2, topics=[topic]
    )


@pytest.mark.parametrize(("version", "level"), [(0, 0), (4, 0), (5, 2), (6, 2)])
async def test_each_partition_has_its_own_result(harness: Harness, version: int, level: int) -> None:
    def reply(sent: pb.TxnOffsetCommitRequest) -> pb.OffsetCommitResponse:
        response = pb.OffsetCommitResponse()
        for one in sent.commit.partitions:
            response.partitions.add(topic_id=one.topic_id, partition=one.partition)
        return response

    harness.services.reply("TxnOffsetCommit", reply)
    message = request(1, 7, by_id=version >= 6)
    message.generation_id, message.member_id, message.group_instance_id = 4, "m", "i"
    if version < 3:
        message.generation_id, message.member_id, message.group_instance_id = -1, "", None
    (topic,) = (await harness.call(version, message, TxnOffsetCommitResponse)).topics
    assert (topic.name, topic.topic_id) == (("", TOPIC.topic_id) if version >= 6 else (TOPIC.name, ""))
    assert codes(topic.partitions) == {1: ErrorCode.NONE, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    sent = harness.services.only("TxnOffsetCommit")
    assert (sent.transactional_id, sent.producer_id, sent.producer_epoch) == ("t", 5, 2)
    assert sent.transaction_version == level
    member = (sent.commit.generation_id, sent.commit.member_id, sent.commit.HasField("group_instance_id"))
    assert member == ((4, "m", True) if version >= 3 else (-1, "", False))
    (committed,) = sent.commit.partitions
    assert (committed.partition, committed.committed_offset, committed.metadata) == (1, 40, "x")
    assert committed.committed_leader_epoch == (3 if version >= 2 else -1)


@pytest.mark.parametrize(
    ("version", "code"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)]
)
async def test_a_failed_request_fails_each_partition(harness: Harness, version: int, code: ErrorCode) -> None:
    harness.services.fail("TxnOffsetCommit", ErrorCode.TRANSACTION_ABORTABLE)
    (topic,) = (await harness.call(version, request(0, 1), TxnOffsetCommitResponse)).topics
    assert codes(topic.partitions) == {0: code, 1: code}


async def test_the_transactional_id_is_required(harness: Harness) -> None:
    response = await harness.call(5, request(0, transactional_id=""), TxnOffsetCommitResponse)
    assert codes(response.topics[0].partitions) == {0: ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.GROUP_ID_NOT_FOUND)]
)
async def test_a_missing_group_has_the_error_code_of_the_version(
    harness: Harness, version: int, code: ErrorCode
) -> None:
    harness.services.fail("TxnOffsetCommit", ErrorCode.GROUP_ID_NOT_FOUND)
    message = request(0, by_id=version >= 6)
    (topic,) = (await harness.call(version, message, TxnOffsetCommitResponse)).topics
    assert codes(topic.partitions) == {0: code}


async def test_an_unknown_topic_id_is_rejected(harness: Harness) -> None:
    message = request(0, by_id=True)
    message.topics[0].topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    (topic,) = (await harness.call(6, message, TxnOffsetCommitResponse)).topics
    assert codes(topic.partitions) == {0: ErrorCode.UNKNOWN_TOPIC_ID}
