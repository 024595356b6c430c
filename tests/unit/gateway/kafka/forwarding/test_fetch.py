"""Fetch: one leader waits for records, several are asked in rounds, and followers have no rights here."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.kafka_wire.messages import FetchRequest, FetchResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness, codes
from tests.unit.gateway.kafka.forwarding.harness import OWN, FakeUpstream


def request(
    *topics: tuple[str, list[int]], wait: int = 400, version: int = 12, **fields: Any
) -> FetchRequest:
    by_id = version >= 13
    return FetchRequest(
        max_wait_ms=wait,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=fields.pop("session_epoch", -1),
        topics=[
            FetchRequest.FetchTopic(
                topic="" if by_id else name,
                topic_id=TOPIC.topic_id if by_id else "",
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=index,
                        current_leader_epoch=-1 if name == OWN.name else 5,
                        fetch_offset=4,
                        partition_max_bytes=1 << 20,
                    )
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ],
        **fields,
    )


def records(_: int, sent: Any, found: bytes = b"x", code: int = 0) -> FetchResponse:
    return FetchResponse(
        node_endpoints=[FetchResponse.NodeEndpoint(node_id=2, host="b2", port=9092)],
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    FetchResponse.PartitionData(
                        partition_index=one.partition,
                        error_code=code,
                        high_watermark=9,
                        preferred_read_replica=2,
                        records=found,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in sent.topics
        ],
    )


def nothing(node: int, sent: Any) -> FetchResponse:
    return records(node, sent, b"")


@pytest.mark.parametrize("version", [4, 11, 12, 17])
async def test_one_leader_waits_and_its_records_are_returned(
    harness: Harness, upstream: FakeUpstream, version: int
) -> None:
    upstream.reply = records
    made = request((TOPIC.name, [1]), version=version)
    response = await harness.call(version, made, FetchResponse)
    (part,) = response.responses[0].partitions
    assert (part.records, part.high_watermark, part.preferred_read_replica) == (b"x", 9, -1)
    assert not response.node_endpoints
    ((node, sent),) = upstream.sent
    assert (node, sent.max_wait_ms, sent.topics[0].partitions[0].fetch_offset) == (2, 400, 4)
    assert upstream.waits == [0.4]


async def test_followers_and_racks_are_not_passed_on(harness: Harness, upstream: FakeUpstream) -> None:
    upstream.reply = records
    state = FetchRequest.ReplicaState(replica_id=3, replica_epoch=1)
    fields: dict[str, Any] = {"replica_id": 3, "rack_id": "a", "session_id": 8, "replica_state": state}
    await harness.call(12, request((TOPIC.name, [1]), session_epoch=0, **fields), FetchResponse)
    await harness.call(17, request((TOPIC.name, [1]), version=17, **fields), FetchResponse)
    for sent in upstream.messages():
        assert (sent.replica_id, sent.replica_state.replica_id) == (-1, -1)
        assert (sent.rack_id, sent.session_id, sent.session_epoch) == ("", 0, -1)


async def test_fetch_sessions_are_refused(harness: Harness, upstream: FakeUpstream) -> None:
    made = request((TOPIC.name, [1]), session_epoch=4)
    response = await harness.call(12, made, FetchResponse)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not upstream.sent


async def test_rounds_at_several_leaders_end_with_the_first_records(
    harness: Harness, upstream: FakeUpstream
) -> None:
    asked: Counter[int] = Counter()

    def reply(node: int, sent: Any) -> FetchResponse:
        asked[node] += 1
        return records(node, sent) if node == 2 and asked[2] == 3 else nothing(node, sent)

    upstream.reply = reply
    made = request((TOPIC.name, [0, 1]), wait=60_000)
    (topic,) = (await harness.call(12, made, FetchResponse)).responses
    assert [part.records for part in topic.partitions] == [b"", b"x"]
    assert asked == {1: 3, 2: 3}
    assert {sent.max_wait_ms for sent in upstream.messages()} == {0}


async def test_rounds_end_at_the_wait_of_the_request(harness: Harness, upstream: FakeUpstream) -> None:
    upstream.reply = nothing
    (topic,) = (await harness.call(12, request((TOPIC.name, [0, 1]), wait=0), FetchResponse)).responses
    assert [part.error_code for part in topic.partitions] == [0, 0]
    assert len(upstream.sent) == 2


async def test_rounds_end_with_an_error(harness: Harness, upstream: FakeUpstream) -> None:
    code = ErrorCode.OFFSET_OUT_OF_RANGE
    upstream.reply = lambda node, sent: records(node, sent, b"", code) if node == 1 else nothing(node, sent)
    (topic,) = (await harness.call(12, request((TOPIC.name, [0, 1]), wait=60_000), FetchResponse)).responses
    assert codes(topic.partitions) == {0: code, 1: 0}


async def test_own_topics_are_read_here(harness: Harness, upstream: FakeUpstream) -> None:
    harness.services.reply_each("Fetch", pb.FetchResponse, records=b"letter")
    upstream.reply = nothing
    made = request((OWN.name, [0]), (TOPIC.name, [0]), wait=60_000)
    response = await harness.call(12, made, FetchResponse)
    assert [topic.partitions[0].records for topic in response.responses] == [b"letter", b""]


async def test_a_topic_without_a_right_is_not_forwarded(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    authorizer.deny(AclOperation.READ, AclResourceType.TOPIC, TOPIC.name)
    (topic,) = (await harness.call(12, request((TOPIC.name, [0])), FetchResponse)).responses
    assert codes(topic.partitions) == {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert not upstream.sent


@pytest.mark.parametrize("by_error", [True, False])
async def test_a_failed_leader_is_an_error_of_its_partitions(
    harness: Harness, upstream: FakeUpstream, by_error: bool
) -> None:
    code = ErrorCode.NETWORK_EXCEPTION if by_error else ErrorCode.INVALID_REQUEST
    upstream.reply = lambda *_: KafkaError(code) if by_error else FetchResponse(error_code=code)
    (topic,) = (await harness.call(12, request((TOPIC.name, [0])), FetchResponse)).responses
    assert codes(topic.partitions) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER if by_error else code}
