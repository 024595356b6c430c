"""Requests for leaders: rights, routing by leader, mixed requests, and what a leader's failure results in."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.kafka_wire.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness, codes
from tests.unit.gateway.kafka.forwarding.harness import OTHER, OWN, FakeUpstream


def offsets_request(*topics: tuple[str, list[int]]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=3,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(
                        partition_index=index, current_leader_epoch=5, timestamp=-1
                    )
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ],
    )


def offsets(node: int, request: Any, code: int = 0) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        throttle_time_ms=node,
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsResponse.ListOffsetsPartitionResponse(
                        partition_index=one.partition_index,
                        error_code=code,
                        offset=node * 100,
                        leader_epoch=5,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


async def test_each_leader_receives_its_partitions_as_from_a_client(
    harness: Harness, upstream: FakeUpstream
) -> None:
    upstream.reply = offsets
    request = offsets_request((TOPIC.name, [1, 0]), (OTHER.name, [0]))
    response = await harness.call(6, request, ListOffsetsResponse)
    found = [(topic.name, [one.offset for one in topic.partitions]) for topic in response.topics]
    assert found == [(TOPIC.name, [200, 100]), (OTHER.name, [100])]
    assert {node for node, _ in upstream.sent} == {1, 2}
    assert {message.replica_id for message in upstream.messages()} == {-1}
    assert response.throttle_time_ms == 2


async def test_own_topics_are_served_here(harness: Harness, upstream: FakeUpstream) -> None:
    harness.services.reply_each("ListOffsets", pb.ListOffsetsResponse, offset=7)
    upstream.reply = offsets
    request = offsets_request((OWN.name, [0]), (TOPIC.name, [0]))
    request.topics[0].partitions[0].current_leader_epoch = -1
    response = await harness.call(6, request, ListOffsetsResponse)
    assert [topic.partitions[0].offset for topic in response.topics] == [7, 100]
    assert [topic.name for topic in upstream.messages()[0].topics] == [TOPIC.name]


async def test_topics_without_a_right_are_not_forwarded(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, OTHER.name)
    upstream.reply = offsets
    request = offsets_request((OTHER.name, [0, 1]), (TOPIC.name, [0]), ("unknown", [0]))
    response = await harness.call(6, request, ListOffsetsResponse)
    forbidden, served, unknown = (codes(topic.partitions) for topic in response.topics)
    assert set(forbidden.values()) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert served == {0: 0}
    assert unknown == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert [topic.name for message in upstream.messages() for topic in message.topics] == [TOPIC.name]


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
async def test_a_leader_that_fails_affects_its_partitions_only(
    harness: Harness, upstream: FakeUpstream, code: ErrorCode, seen: ErrorCode
) -> None:
    upstream.reply = lambda node, request: KafkaError(code) if node == 2 else offsets(node, request)
    response = await harness.call(6, offsets_request((TOPIC.name, [0, 1])), ListOffsetsResponse)
    assert codes(response.topics[0].partitions) == {0: 0, 1: seen}


async def test_stale_leaders_are_looked_up_before_the_response(
    harness: Harness, upstream: FakeUpstream
) -> None:
    upstream.reply = lambda node, request: offsets(node, request, ErrorCode.FENCED_LEADER_EPOCH)
    response = await harness.call(6, offsets_request((TOPIC.name, [0])), ListOffsetsResponse)
    assert codes(response.topics[0].partitions) == {0: ErrorCode.FENCED_LEADER_EPOCH}
    assert upstream.fake.refreshed == [TOPIC.name]


async def test_an_unknown_leader_is_looked_up_first(harness: Harness, upstream: FakeUpstream) -> None:
    upstream.reply = offsets
    upstream.fake.without_leader(TOPIC.name)
    response = await harness.call(6, offsets_request((TOPIC.name, [1])), ListOffsetsResponse)
    assert response.topics[0].partitions[0].offset == 200
    upstream.fake.without_leader(TOPIC.name)
    upstream.fake.failure = KafkaError(ErrorCode.NETWORK_EXCEPTION)
    response = await harness.call(6, offsets_request((TOPIC.name, [1])), ListOffsetsResponse)
    assert codes(response.topics[0].partitions) == {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}
