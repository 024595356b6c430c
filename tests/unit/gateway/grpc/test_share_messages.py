"""ShareFetch and ShareAcknowledge as messages."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.model import AckBatch, AcquiredRange, TopicIdPartition
from sharebroker_server.gateway.authorization import Caller
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.grpc import share_messages
from sharebroker_server.gateway.share.fetch import FetchedPartition

T0, T1, U0 = TopicIdPartition("t", 0), TopicIdPartition("t", 1), TopicIdPartition("u", 0)

UNREAD: Any = None
PEER = Caller("peer", rights=UNREAD)


def request_of(**fields: Any) -> pb.ShareFetchRequest:
    return pb.ShareFetchRequest(group_id="g", member_id="m", share_session_epoch=3, **fields)


def test_fetch_names_session_partitions_and_acknowledgements() -> None:
    batch = pb.AcknowledgementBatch(first_offset=5, last_offset=7, acknowledge_types=[1])
    request = request_of(max_wait_ms=10, min_bytes=1, max_records=500)
    topic = request.topics.add(topic_id="t")
    topic.partitions.add(partition_index=0, acknowledgement_batches=[batch])
    topic.partitions.add(partition_index=1)
    request.forgotten_topics_data.add(topic_id="u", partitions=[0])
    fetch = share_messages.fetch_of(request, PEER, "User:a")
    assert (fetch.caller.connection, fetch.key, fetch.epoch) == ("peer", SessionKey("g", "m", "User:a"), 3)
    assert fetch.acks == {T0: [AckBatch(5, 7, (1,))], T1: []}
    assert list(fetch.forgotten) == [U0]
    assert (fetch.max_wait_ms, fetch.min_bytes, fetch.max_records) == (10, 1, 500)


@pytest.mark.parametrize(
    ("fields", "max_bytes"),
    [({}, 2**31 - 1), ({"max_bytes": 0}, 0), ({"max_bytes": 9}, 9), ({"is_renew_ack": True}, 0)],
)
def test_absent_max_bytes_is_no_limit_unless_locks_are_renewed(
    fields: dict[str, Any], max_bytes: int
) -> None:
    assert share_messages.fetch_of(request_of(**fields), PEER, "User:a").max_bytes == max_bytes


def test_fetch_has_the_lock_length_in_seconds() -> None:
    assert share_messages.fetch_of(request_of(lock_ms=90_500), PEER, "User:a").lock == 90.5
    assert share_messages.fetch_of(request_of(), PEER, "User:a").lock == 0


def test_acknowledge_names_session_and_acknowledgements() -> None:
    request = pb.ShareAcknowledgeRequest(
        group_id="g", member_id="m", share_session_epoch=3, is_renew_ack=True
    )
    batch = pb.AcknowledgementBatch(first_offset=5, last_offset=7, acknowledge_types=[1])
    request.topics.add(topic_id="t").partitions.add(partition_index=0, acknowledgement_batches=[batch])
    converted = share_messages.acknowledge_of(request, PEER, "User:a")
    assert (converted.caller.connection, converted.key, converted.epoch) == (
        "peer",
        SessionKey("g", "m", "User:a"),
        3,
    )
    assert (converted.acks, converted.renews) == ({T0: [AckBatch(5, 7, (1,))]}, True)


@pytest.mark.parametrize(
    ("code", "names_leader"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.FENCED_LEADER_EPOCH, True),
        (ErrorCode.INVALID_RECORD_STATE, False),
    ],
)
def test_response_names_no_leader_where_it_moved(code: ErrorCode, names_leader: bool) -> None:
    response = share_messages.acknowledge_response({T0: KafkaError(code, "moved"), U0: None, T1: None}, 30)
    assert response.acquisition_lock_timeout_ms == 30
    assert [topic.topic_id for topic in response.responses] == ["t", "u"]
    failed, done = response.responses[0].partitions
    assert (failed.partition_index, failed.error_message) == (0, "moved")
    assert failed.error_code == code.value
    assert failed.HasField("current_leader") is names_leader
    assert (done.partition_index, done.error_code, done.HasField("current_leader")) == (1, 0, False)


def test_fetched_partitions_are_grouped_by_topic() -> None:
    acquired = AcquiredRange(5, 7, 1, 9, 0.0)
    response = share_messages.fetch_response(
        [
            FetchedPartition(T0, records=b"batch", acquired=[acquired]),
            FetchedPartition(U0, ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved"),
            FetchedPartition(T1, acknowledge_error=KafkaError(ErrorCode.INVALID_RECORD_STATE, "late")),
        ],
        30,
    )
    assert [topic.topic_id for topic in response.responses] == ["t", "u"]
    fetched, late = response.responses[0].partitions
    assert (fetched.partition_index, fetched.records, fetched.error_code) == (0, b"batch", 0)
    assert [(run.first_offset, run.last_offset) for run in fetched.acquired_records] == [(5, 7)]
    assert (late.acknowledge_error_code, late.acknowledge_error_message) == (121, "late")
    assert not late.HasField("current_leader")
    (moved,) = response.responses[1].partitions
    assert moved.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER.value
    assert moved.error_message == "moved"
    assert (moved.current_leader.leader_id, moved.current_leader.leader_epoch) == (-1, -1)


def test_entries_of_one_partition_are_merged() -> None:
    request = pb.ShareAcknowledgeRequest(group_id="g", member_id="m")
    for topic_id, partition, offsets in (("t", 0, [0]), ("t", 1, []), ("t", 0, [2])):
        batches = [pb.AcknowledgementBatch(first_offset=at, last_offset=at + 1) for at in offsets]
        request.topics.add(topic_id=topic_id).partitions.add(
            partition_index=partition, acknowledgement_batches=batches
        )
    acks = share_messages.acknowledge_of(request, PEER, "User:a").acks
    assert acks == {T0: [AckBatch(0, 1, ()), AckBatch(2, 3, ())], T1: []}
