"""ShareAcknowledge: every partition of the request has its own result."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AckBatch
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.kafka import call
from sharebroker_server.kafka_wire.messages import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from sharebroker_server.leader_calls.values import AckResult
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC, Leader
from tests.unit.gateway.kafka.api.harness import Harness, codes
from tests.unit.gateway.kafka.api.share_calls import FakeShareCalls


def request(epoch: int = 1, **fields: Any) -> ShareAcknowledgeRequest:
    batch = ShareAcknowledgeRequest.AcknowledgementBatch(first_offset=5, last_offset=6, acknowledge_types=[1])
    partition = ShareAcknowledgeRequest.AcknowledgePartition(
        partition_index=1, acknowledgement_batches=[batch]
    )
    topic = ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=TOPIC.topic_id, partitions=[partition])
    return ShareAcknowledgeRequest(
        group_id="g", member_id="m", share_session_epoch=epoch, topics=[topic], **fields
    )


@pytest.fixture
def calls(harness: Harness) -> FakeShareCalls:
    harness.gateway.sessions.open(SessionKey("g", "m"), harness.client.connection, (), 0.0)
    calls = FakeShareCalls()
    harness.router.register_local(SharePartitionLeaderServiceStub, Leader(), calls)
    return calls


@pytest.mark.parametrize("version", [1, 2])
async def test_acknowledgements_are_forwarded(harness: Harness, calls: FakeShareCalls, version: int) -> None:
    response = await harness.call(version, request(), ShareAcknowledgeResponse)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert response.acquisition_lock_timeout_ms == (30_000 if version >= 2 else 0)
    (topic,) = response.responses
    assert topic.topic_id == TOPIC.topic_id
    assert codes(topic.partitions) == {1: ErrorCode.NONE}
    (sent,) = calls.acknowledged
    assert (sent.group_id, sent.member_id) == ("g", "m")
    (part,) = sent.parts
    assert (part.topic_id, part.partition, list(part.batches)) == (TOPIC.topic_id, 1, [AckBatch(5, 6, [1])])


async def test_a_partition_of_another_leader_has_a_hint(
    harness: Harness, calls: FakeShareCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "REQUEST_TIMEOUT", 0.1)  # the gateway retries until the deadline
    harness.lead_elsewhere()
    fenced = ErrorCode.FENCED_LEADER_EPOCH
    calls.result = lambda topic_id, index: AckResult(topic_id, index, fenced, "moved")
    response = await harness.call(2, request(), ShareAcknowledgeResponse)
    (partition,) = response.responses[0].partitions
    assert partition.error_code == fenced
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 3)
    assert [one.node_id for one in response.node_endpoints] == [2]


async def test_an_unknown_session_is_an_error_of_the_request(harness: Harness) -> None:
    response = await harness.call(2, request(), ShareAcknowledgeResponse)
    assert (response.error_code, response.responses) == (ErrorCode.SHARE_SESSION_NOT_FOUND, [])
    assert response.error_message


async def test_a_forbidden_topic_is_an_error_of_its_partitions(
    harness: Harness, authorizer: TableAuthorizer, calls: FakeShareCalls
) -> None:
    authorizer.deny(AclOperation.READ, AclResourceType.TOPIC, TOPIC.name)
    response = await harness.call(2, request(), ShareAcknowledgeResponse)
    (topic,) = response.responses
    assert response.error_code == ErrorCode.NONE
    assert codes(topic.partitions) == {1: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert calls.acknowledged == []
