"""DeleteTopics: by name and by id, and the right on each topic."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.gateway.kafka.forwarding import visibility
from sharebroker_server.kafka_wire.messages import DeleteTopicsRequest, DeleteTopicsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness
from tests.unit.gateway.kafka.forwarding.harness import OTHER, FakeUpstream


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the wait for changes that no catalog of a test follows."""
    monkeypatch.setattr(visibility, "VISIBLE_SECONDS", 0.02)


def deleted(_: int, request: Any) -> DeleteTopicsResponse:
    named = [(name, "") for name in request.topic_names] or [
        (topic.name, topic.topic_id) for topic in request.topics
    ]
    return DeleteTopicsResponse(
        responses=[
            DeleteTopicsResponse.DeletableTopicResult(name=name, topic_id=topic_id)
            for name, topic_id in reversed(named)
        ]
    )


@pytest.mark.parametrize("version", [1, 5, 6])
async def test_topics_are_deleted_in_the_cluster(
    harness: Harness, upstream: FakeUpstream, version: int
) -> None:
    upstream.reply = deleted
    names = [TOPIC.name, OTHER.name]
    states = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    request = (
        DeleteTopicsRequest(topics=states, timeout_ms=100)
        if version >= 6
        else DeleteTopicsRequest(topic_names=names, timeout_ms=100)
    )
    response = await harness.call(version, request, DeleteTopicsResponse)
    assert [(one.name, one.error_code) for one in response.responses] == [(name, 0) for name in names]
    assert upstream.fake.deleted_topics == {TOPIC.topic_id, OTHER.topic_id}


async def test_deletion_by_id_requires_the_right(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    upstream.reply = deleted
    states = [
        DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic.topic_id) for topic in (TOPIC, OTHER)
    ]
    authorizer.deny(AclOperation.DELETE, AclResourceType.CLUSTER)
    authorizer.deny(AclOperation.DELETE, AclResourceType.TOPIC, TOPIC.name)
    request = DeleteTopicsRequest(topics=states, timeout_ms=100)
    response = await harness.call(6, request, DeleteTopicsResponse)
    assert [one.error_code for one in response.responses] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0]
    assert [one.topic_id for one in upstream.messages()[0].topics] == [OTHER.topic_id]
