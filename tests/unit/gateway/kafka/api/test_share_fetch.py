"""ShareFetch: acquired records and results of acknowledgements by partition."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AcquiredRange
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.kafka_wire.messages import ShareFetchRequest, ShareFetchResponse
from sharebroker_server.leader_calls.values import AckResult, AcquireResult
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.support.kafka_client import Batch, fetch_topics
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC, Leader
from tests.unit.gateway.kafka.api.harness import Harness
from tests.unit.gateway.kafka.api.share_calls import FakeShareCalls


def request(
    epoch: int = 0, acks: dict[tuple[str, int], list[Batch]] | None = None, **fields: Any
) -> ShareFetchRequest:
    topics: Any = fetch_topics({TOPIC.topic_id: [1]} if epoch == 0 else {}, acks or {})
    sizes = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1000, "max_records": 500, "batch_size": 500}
    return ShareFetchRequest(
        group_id="g", member_id="m", share_session_epoch=epoch, topics=topics, **{**sizes, **fields}
    )


@pytest.fixture
def calls(harness: Harness) -> FakeShareCalls:
    calls = FakeShareCalls()
    harness.router.register_local(SharePartitionLeaderServiceStub, Leader(), calls)
    return calls


def acquired(topic_id: str, index: int) -> AcquireResult:
    runs = [AcquiredRange(5, 6, 1, 7, 0.0), AcquiredRange(7, 9, 2, 7, 0.0)]
    return AcquireResult(topic_id, index, records=b"batch", acquired=runs)


@pytest.mark.parametrize("version", [1, 2])
async def test_acquired_records_are_returned(harness: Harness, calls: FakeShareCalls, version: int) -> None:
    calls.acquire_result = acquired
    response = await harness.call(version, request(), ShareFetchResponse)
    assert (response.error_code, response.acquisition_lock_timeout_ms) == (ErrorCode.NONE, 30_000)
    (topic,) = response.responses
    (partition,) = topic.partitions
    assert (topic.topic_id, partition.partition_index, partition.records) == (TOPIC.topic_id, 1, b"batch")
    found = [(one.first_offset, one.last_offset, one.delivery_count) for one in partition.acquired_records]
    assert found == [(5, 6, 1), (7, 9, 2)]
    assert (partition.error_code, partition.acknowledge_error_code) == (0, 0)
    (call,) = calls.acquired
    assert (call.group_id, call.member_id, call.max_records) == ("g", "m", 500)


async def test_results_of_acknowledgements_are_returned(harness: Harness, calls: FakeShareCalls) -> None:
    calls.acquire_result = acquired
    await harness.call(2, request(), ShareFetchResponse)
    calls.acquire_result = AcquireResult
    code = ErrorCode.INVALID_RECORD_STATE
    calls.result = lambda topic_id, index: AckResult(topic_id, index, code, "released")
    follow = request(1, {(TOPIC.topic_id, 1): [(5, 6, [1])]})
    (topic,) = (await harness.call(2, follow, ShareFetchResponse)).responses
    (partition,) = topic.partitions
    assert (partition.error_code, partition.acknowledge_error_code) == (0, code)
    assert partition.acknowledge_error_message == "released"


async def test_a_partition_of_another_leader_has_a_hint(harness: Harness, calls: FakeShareCalls) -> None:
    harness.lead_elsewhere()
    response = await harness.call(2, request(), ShareFetchResponse)
    (partition,) = response.responses[0].partitions
    assert (partition.error_code, partition.error_message) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 3)
    assert [one.node_id for one in response.node_endpoints] == [2]


async def test_a_forgotten_partition_leaves_the_session(harness: Harness, calls: FakeShareCalls) -> None:
    await harness.call(2, request(), ShareFetchResponse)
    forgotten = [ShareFetchRequest.ForgottenTopic(topic_id=TOPIC.topic_id, partitions=[1])]
    await harness.call(2, request(1, forgotten_topics_data=forgotten), ShareFetchResponse)
    session = harness.gateway.sessions.get(SessionKey("g", "m"))
    assert session is not None
    assert list(session.partitions) == []


async def test_a_wrong_epoch_is_an_error_of_the_request(harness: Harness, calls: FakeShareCalls) -> None:
    response = await harness.call(2, request(5), ShareFetchResponse)
    assert (response.error_code, response.responses) == (ErrorCode.SHARE_SESSION_NOT_FOUND, [])


async def test_a_permission_that_ends_is_an_error_of_the_next_fetch(
    harness: Harness, authorizer: TableAuthorizer, calls: FakeShareCalls
) -> None:
    for epoch in (0, 1):
        assert (await harness.call(2, request(epoch), ShareFetchResponse)).error_code == ErrorCode.NONE
    authorizer.deny(AclOperation.READ, AclResourceType.TOPIC, TOPIC.name)
    (topic,) = (await harness.call(2, request(2), ShareFetchResponse)).responses
    assert [one.error_code for one in topic.partitions] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    authorizer.deny(AclOperation.READ, AclResourceType.GROUP, "g")
    response = await harness.call(2, request(3), ShareFetchResponse)
    assert (response.error_code, response.responses) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
