"""Requests of groups and transactions: rights come first, and topics without a right are left out."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.forwarding.upstream import GROUP, TRANSACTION
from sharebroker_server.kafka_wire import messages
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness, codes
from tests.unit.gateway.kafka.forwarding.harness import OTHER, OWN, FakeUpstream

READ_GROUP = (AclOperation.READ, AclResourceType.GROUP, "g")
WRITE_ID = (AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, "t")
DELETE_GROUP = (AclOperation.DELETE, AclResourceType.GROUP, "g")

CASES: list[tuple[int, Message, type[Message], tuple[int, str], tuple[Any, ...]]] = [
    (
        9,
        messages.JoinGroupRequest(
            group_id="g", session_timeout_ms=6000, rebalance_timeout_ms=7000, protocol_type="consumer"
        ),
        messages.JoinGroupResponse,
        (GROUP, "g"),
        (READ_GROUP,),
    ),
    (
        5,
        messages.SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range"),
        messages.SyncGroupResponse,
        (GROUP, "g"),
        (READ_GROUP,),
    ),
    (4, messages.HeartbeatRequest(group_id="g"), messages.HeartbeatResponse, (GROUP, "g"), (READ_GROUP,)),
    (5, messages.LeaveGroupRequest(group_id="g"), messages.LeaveGroupResponse, (GROUP, "g"), (READ_GROUP,)),
    (
        9,
        messages.OffsetCommitRequest(group_id="g"),
        messages.OffsetCommitResponse,
        (GROUP, "g"),
        (READ_GROUP,),
    ),
    (
        0,
        messages.OffsetDeleteRequest(group_id="g"),
        messages.OffsetDeleteResponse,
        (GROUP, "g"),
        (DELETE_GROUP,),
    ),
    (
        3,
        messages.TxnOffsetCommitRequest(transactional_id="t", group_id="g"),
        messages.TxnOffsetCommitResponse,
        (GROUP, "g"),
        (WRITE_ID, READ_GROUP),
    ),
    (
        3,
        messages.AddOffsetsToTxnRequest(transactional_id="t", group_id="g"),
        messages.AddOffsetsToTxnResponse,
        (TRANSACTION, "t"),
        (WRITE_ID, READ_GROUP),
    ),
    (
        3,
        messages.EndTxnRequest(transactional_id="t", committed=True),
        messages.EndTxnResponse,
        (TRANSACTION, "t"),
        (WRITE_ID,),
    ),
    (
        4,
        messages.InitProducerIdRequest(transactional_id="t"),
        messages.InitProducerIdResponse,
        (TRANSACTION, "t"),
        (WRITE_ID,),
    ),
    (
        3,
        messages.AddPartitionsToTxnRequest(v3_and_below_transactional_id="t"),
        messages.AddPartitionsToTxnResponse,
        (TRANSACTION, "t"),
        (WRITE_ID,),
    ),
]
NAMES = [type(case[1]).__name__ for case in CASES]


@pytest.mark.parametrize(("version", "request_", "response", "key", "rights"), CASES, ids=NAMES)
async def test_a_request_goes_to_its_coordinator_if_every_right_is_there(
    harness: Harness,
    upstream: FakeUpstream,
    authorizer: TableAuthorizer,
    version: int,
    request_: Message,
    response: type[Message],
    key: tuple[int, str],
    rights: tuple[Any, ...],
) -> None:
    upstream.coordinated = {key: 2}
    upstream.reply = lambda *_: response()
    await harness.call(version, request_, response)
    assert [node for node, _ in upstream.sent] == [2]
    for operation, kind, name in rights:
        authorizer.allow_all()
        authorizer.deny(operation, kind, name)
        await harness.call(version, request_, response)
    assert len(upstream.sent) == 1


async def test_a_coordinator_that_cannot_be_reached_is_looked_up_again(
    harness: Harness, upstream: FakeUpstream
) -> None:
    upstream.reply = lambda *_: KafkaError(ErrorCode.NETWORK_EXCEPTION)
    request = messages.HeartbeatRequest(group_id="g")
    response = await harness.call(4, request, messages.HeartbeatResponse)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_rebalance_may_take_as_long_as_the_client_permits(
    harness: Harness, upstream: FakeUpstream
) -> None:
    upstream.reply = lambda *_: messages.JoinGroupResponse(member_id="m")
    request = messages.JoinGroupRequest(group_id="g", session_timeout_ms=6000, rebalance_timeout_ms=7000)
    await harness.call(4, request, messages.JoinGroupResponse)
    assert upstream.waits == [7.0]


def commit(*names: str) -> messages.OffsetCommitRequest:
    part = messages.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=1, committed_offset=5)
    topic = messages.OffsetCommitRequest.OffsetCommitRequestTopic
    return messages.OffsetCommitRequest(
        group_id="g", topics=[topic(name=name, partitions=[part]) for name in names]
    )


def committed(_: int, request: Any) -> messages.OffsetCommitResponse:
    response = messages.OffsetCommitResponse
    return response(
        topics=[
            response.OffsetCommitResponseTopic(
                name=topic.name, partitions=[response.OffsetCommitResponsePartition(partition_index=1)]
            )
            for topic in request.topics
        ]
    )


def stored_here(request: pb.OffsetCommitRequest) -> pb.OffsetCommitResponse:
    response = pb.OffsetCommitResponse()
    for one in request.partitions:
        response.partitions.add(topic_id=one.topic_id, partition=one.partition)
    return response


async def test_offsets_are_committed_where_the_topic_is(harness: Harness, upstream: FakeUpstream) -> None:
    harness.services.reply("OffsetCommit", stored_here)
    upstream.reply = committed
    request = commit(OWN.name, TOPIC.name)
    request.topics[0].partitions = [
        messages.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    ]
    response = await harness.call(9, request, messages.OffsetCommitResponse)
    assert [codes(topic.partitions) for topic in response.topics] == [{0: 0}, {1: 0}]
    assert [topic.name for topic in upstream.messages()[0].topics] == [TOPIC.name]
    assert [one.committed_offset for one in harness.services.only("OffsetCommit").partitions] == [7]


@pytest.mark.parametrize(
    ("code", "commits"),
    [(0, True), (ErrorCode.REBALANCE_IN_PROGRESS, True), (ErrorCode.ILLEGAL_GENERATION, False)],
)
async def test_a_member_commits_here_after_a_heartbeat_to_its_coordinator(
    harness: Harness, upstream: FakeUpstream, code: int, commits: bool
) -> None:
    harness.services.reply("OffsetCommit", stored_here)
    upstream.reply = lambda *_: messages.HeartbeatResponse(error_code=code)
    request = commit(OWN.name)
    part = messages.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    request.topics[0].partitions = [part]
    request.generation_id_or_member_epoch, request.member_id = 4, "m"
    await harness.call(9, request, messages.OffsetCommitResponse)
    ((_, sent),) = upstream.sent
    assert (sent.group_id, sent.generation_id, sent.member_id) == ("g", 4, "m")
    stored = harness.services.requests["OffsetCommit"]
    assert [(one.generation_id, one.member_id) for one in stored] == [(-1, "")] * commits


async def test_offsets_are_committed_for_readable_topics(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    upstream.reply = committed
    authorizer.deny(AclOperation.READ, AclResourceType.TOPIC, OTHER.name)
    request = commit(OTHER.name, TOPIC.name, "unknown")
    response = await harness.call(9, request, messages.OffsetCommitResponse)
    assert [codes(topic.partitions) for topic in response.topics] == [
        {1: ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        {1: 0},
        {1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    ]
    assert [topic.name for topic in upstream.messages()[0].topics] == [TOPIC.name]


async def test_no_request_is_sent_without_a_readable_topic(harness: Harness, upstream: FakeUpstream) -> None:
    response = await harness.call(9, commit("unknown"), messages.OffsetCommitResponse)
    assert codes(response.topics[0].partitions) == {1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not upstream.sent


async def test_one_forbidden_topic_prevents_all_partitions_of_a_transaction(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    authorizer.deny(AclOperation.WRITE, AclResourceType.TOPIC, OTHER.name)
    topic = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    request = messages.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_topics=[topic(name=name, partitions=[0]) for name in (TOPIC.name, OTHER.name)],
    )
    response = await harness.call(3, request, messages.AddPartitionsToTxnResponse)
    assert [
        one.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    ] == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert not upstream.sent


async def test_any_broker_gives_a_producer_id(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    upstream.reply = lambda *_: messages.InitProducerIdResponse(producer_id=9)
    request = messages.InitProducerIdRequest(transactional_id=None)
    assert (await harness.call(4, request, messages.InitProducerIdResponse)).producer_id == 9
    authorizer.deny(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER)
    authorizer.deny(AclOperation.WRITE, AclResourceType.TOPIC)
    response = await harness.call(4, request, messages.InitProducerIdResponse)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert len(upstream.sent) == 1


async def test_a_request_that_fails_as_a_whole_has_the_error_of_the_coordinator(
    harness: Harness, upstream: FakeUpstream
) -> None:
    code = ErrorCode.GROUP_ID_NOT_FOUND
    upstream.reply = lambda *_: messages.OffsetDeleteResponse(error_code=code)
    part = messages.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
    topic = messages.OffsetDeleteRequest.OffsetDeleteRequestTopic(name=TOPIC.name, partitions=[part])
    request = messages.OffsetDeleteRequest(group_id="g", topics=[topic])
    response = await harness.call(0, request, messages.OffsetDeleteResponse)
    assert (response.error_code, list(response.topics)) == (code, [])
