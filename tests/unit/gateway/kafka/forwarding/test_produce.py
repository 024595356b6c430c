"""Produce: batches go to the leaders unchanged, after the checks of rights; acks=0."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.messages import ProduceRequest, ProduceResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness, codes
from tests.unit.gateway.kafka.forwarding.harness import OWN, FakeUpstream
from tests.unit.record_log.batches import batch

RECORDS = batch()
TRANSACTIONAL = batch(producer=(7, 0, 0), transactional=True)


def request(*topics: str, acks: int = -1, records: bytes = RECORDS, version: int = 11) -> ProduceRequest:
    data = [ProduceRequest.PartitionProduceData(index=index, records=records) for index in (0, 1)]
    by_id = version >= 13
    return ProduceRequest(
        transactional_id="t",
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name="" if by_id else name,
                topic_id=TOPIC.topic_id if by_id else "",
                partition_data=data[: 1 if name == OWN.name else 2],
            )
            for name in topics
        ],
    )


def stored(node: int, sent: Any, code: int = 0) -> ProduceResponse:
    """A leader's response: base offset by node, and a hint at a broker that clients do not know."""
    return ProduceResponse(
        node_endpoints=[ProduceResponse.NodeEndpoint(node_id=2, host="b2", port=9092)],
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    ProduceResponse.PartitionProduceResponse(
                        index=one.index,
                        error_code=code,
                        base_offset=node * 100,
                        current_leader=ProduceResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=6),
                    )
                    for one in topic.partition_data
                ],
            )
            for topic in sent.topic_data
        ],
    )


@pytest.mark.parametrize("version", [3, 9, 11, 13])
async def test_leaders_receive_the_bytes_of_their_batches(
    harness: Harness, upstream: FakeUpstream, version: int
) -> None:
    upstream.reply = stored
    made = request(TOPIC.name, version=version)
    (topic,) = (await harness.call(version, made, ProduceResponse)).responses
    assert [(one.index, one.base_offset) for one in topic.partition_responses] == [(0, 100), (1, 200)]
    assert {
        one.records for message in upstream.messages() for one in message.topic_data[0].partition_data
    } == {RECORDS}


async def test_brokers_of_the_cluster_are_not_in_the_response(
    harness: Harness, upstream: FakeUpstream
) -> None:
    upstream.reply = lambda node, sent: stored(node, sent, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    response = await harness.call(10, request(TOPIC.name), ProduceResponse)
    assert not response.node_endpoints
    assert {one.current_leader.leader_id for one in response.responses[0].partition_responses} == {-1}


async def test_a_topic_without_a_right_is_not_forwarded(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    authorizer.deny(AclOperation.WRITE, AclResourceType.TOPIC, TOPIC.name)
    (topic,) = (await harness.call(11, request(TOPIC.name), ProduceResponse)).responses
    assert set(codes(topic.partition_responses).values()) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert not upstream.sent


async def test_transactional_records_require_the_right_on_their_id(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    authorizer.deny(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, "t")
    made = request(TOPIC.name, records=TRANSACTIONAL)
    (topic,) = (await harness.call(11, made, ProduceResponse)).responses
    assert set(codes(topic.partition_responses).values()) == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert not upstream.sent
    upstream.reply = stored
    (topic,) = (await harness.call(11, request(TOPIC.name), ProduceResponse)).responses
    assert codes(topic.partition_responses) == {0: 0, 1: 0}


async def test_own_topics_are_appended_here(harness: Harness, upstream: FakeUpstream) -> None:
    harness.services.reply_each("Produce", pb.ProduceResponse, base_offset=7)
    upstream.reply = stored
    response = await harness.call(9, request(OWN.name, TOPIC.name), ProduceResponse)
    found = [[one.base_offset for one in topic.partition_responses] for topic in response.responses]
    assert found == [[7], [100, 200]]


@pytest.mark.parametrize("acks", [-1, 1])
async def test_acks_of_the_client_are_forwarded(harness: Harness, upstream: FakeUpstream, acks: int) -> None:
    upstream.reply = stored
    await harness.call(9, request(TOPIC.name, acks=acks), ProduceResponse)
    assert {message.acks for message in upstream.messages()} == {acks}


async def test_acks_0_waits_for_leaders_and_closes_after_an_error(
    harness: Harness, upstream: FakeUpstream
) -> None:
    upstream.reply = stored
    assert await harness.send(9, request(TOPIC.name, acks=0)) is None
    assert {message.acks for message in upstream.messages()} == {1}
    upstream.reply = lambda node, sent: stored(node, sent, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(BadMessage):
        await harness.send(9, request(TOPIC.name, acks=0))


async def test_invalid_acks_are_rejected_here(harness: Harness, upstream: FakeUpstream) -> None:
    (topic,) = (await harness.call(9, request(TOPIC.name, acks=2), ProduceResponse)).responses
    assert codes(topic.partition_responses) == dict.fromkeys((0, 1), ErrorCode.INVALID_REQUIRED_ACKS)
    assert not upstream.sent
