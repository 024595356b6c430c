"""DeleteTopics: topics by name, and by id from version 6 on."""

from __future__ import annotations

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import DeleteTopicsRequest, DeleteTopicsResponse
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

State = DeleteTopicsRequest.DeleteTopicState


def reply(request: pb.DeleteTopicsRequest) -> pb.DeleteTopicsResponse:
    response = pb.DeleteTopicsResponse()
    for one in request.topics:
        disabled = one.name == "disabled"
        code = ErrorCode.TOPIC_DELETION_DISABLED if disabled else ErrorCode.NONE
        response.topics.add(name=one.name or "named", topic_id=one.topic_id, error_code=wire(code))
    return response


async def test_version_5_names_topics_by_name(harness: Harness) -> None:
    harness.services.reply("DeleteTopics", reply)
    request = DeleteTopicsRequest(topic_names=["a", "b", "b"])
    response = await harness.call(5, request, DeleteTopicsResponse)
    assert [(one.name, one.error_code) for one in response.responses] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]
    assert response.responses[1].error_message == "Duplicate topic: b."


async def test_version_6_names_topics_by_name_or_id(harness: Harness) -> None:
    harness.services.reply("DeleteTopics", reply)
    unknown = "C" * 21 + "A"
    topics = [State(name="a"), State(topic_id=unknown), State(name="x", topic_id=unknown), State()]
    response = await harness.call(6, DeleteTopicsRequest(topics=topics), DeleteTopicsResponse)
    found = [(one.name, one.topic_id, one.error_code) for one in response.responses]
    assert found == [
        ("a", "", ErrorCode.NONE),
        ("named", unknown, ErrorCode.NONE),
        (None, unknown, ErrorCode.INVALID_REQUEST),
        ("", "", ErrorCode.INVALID_REQUEST),
    ]
    sent = harness.services.only("DeleteTopics").topics
    assert [(one.name, one.topic_id) for one in sent] == [("a", ""), ("", unknown)]


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
async def test_disabled_deletion_has_the_error_of_the_version(
    harness: Harness, version: int, code: ErrorCode
) -> None:
    harness.services.reply("DeleteTopics", reply)
    request = DeleteTopicsRequest(topic_names=["disabled"])
    assert (await harness.call(version, request, DeleteTopicsResponse)).responses[0].error_code == code


async def test_a_failed_request_fails_each_topic(harness: Harness) -> None:
    harness.services.fail("DeleteTopics", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = [State(name="a"), State(topic_id=TOPIC.topic_id)]
    response = await harness.call(6, DeleteTopicsRequest(topics=topics), DeleteTopicsResponse)
    assert [(one.name, one.topic_id, one.error_code) for one in response.responses] == [
        ("a", "", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (None, TOPIC.topic_id, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ]


@pytest.mark.parametrize("known", [True, False])
async def test_a_forbidden_topic_by_id_has_a_name_only_with_describe(
    harness: Harness, authorizer: TableAuthorizer, known: bool
) -> None:
    authorizer.deny(AclOperation.DELETE, AclResourceType.CLUSTER)
    authorizer.deny(AclOperation.DELETE, AclResourceType.TOPIC)
    if not known:
        authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC)
    request = DeleteTopicsRequest(topics=[State(topic_id=TOPIC.topic_id), State(name=TOPIC.name)])
    by_id, by_name = (await harness.call(6, request, DeleteTopicsResponse)).responses
    assert (by_id.name, by_id.error_code) == (
        TOPIC.name if known else None,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
    assert (by_name.name, by_name.error_code) == (TOPIC.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert not harness.services.requests
