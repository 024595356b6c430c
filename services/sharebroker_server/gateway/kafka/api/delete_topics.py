"""DeleteTopics (20): deletes topics by name or, from version 6 on, by id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.admin.topics import delete_topics
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal, for_version
from sharebroker_server.gateway.kafka.catalog_changes import duplicate_check, each_item
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.topics import topic_by_id
from sharebroker_server.kafka_wire.messages import DeleteTopicsRequest, DeleteTopicsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_Deleted = pb.DeleteTopicsResponse.Topic
_Result = DeleteTopicsResponse.DeletableTopicResult
_result = to_kafka(_Deleted, _Result)


class NamedTopic(NamedTuple):
    """A topic by its name or its id; the other one is empty."""

    name: str
    topic_id: str

    def __str__(self) -> str:
        return self.name or self.topic_id

    @property
    def name_in_result(self) -> str | None:
        """The name in a failed result; null for a topic by id."""
        return None if self.topic_id else self.name


async def handle(call: Call[DeleteTopicsRequest]) -> DeleteTopicsResponse:
    """Returns one result per topic."""
    topics = named_topics(call.request)
    check = duplicate_check(topics, "topic")

    def translate(topic: NamedTopic) -> pb.DeleteTopicsRequest.Topic:
        if bool(topic.name) == bool(topic.topic_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "A topic is identified by its name or by its id, not by both."
            )
        check(topic)
        authorize(call, topic)
        catalog = call.gateway.catalog
        found = catalog.topic(topic.name) if topic.name else catalog.topic_by_id(topic.topic_id)
        call.mutate(0 if found is None else found.partitions, strict_from=5)
        return pb.DeleteTopicsRequest.Topic(name=topic.name, topic_id=topic.topic_id)

    async def send(valid: list[pb.DeleteTopicsRequest.Topic]) -> Iterable[_Deleted]:
        request = pb.DeleteTopicsRequest(topics=valid)
        return (await delete_topics(call.gateway, request, call.deadline(call.request.timeout_ms))).topics

    def failed(topic: NamedTopic, error: KafkaError) -> _Result:
        code = for_version(API.key, call.version, error.code)
        result: _Result = _refuse.item("responses", topic, KafkaError(code, error.message))
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED and topic.topic_id:
            result.name = _visible_name(call, topic.topic_id)
        return result

    results = await each_item(
        call.gateway.turns, topics, translate, send, lambda _, deleted: _result(deleted), failed
    )
    return DeleteTopicsResponse(responses=results)


def authorize(call: Call, topic: NamedTopic) -> None:
    """Raises TOPIC_AUTHORIZATION_FAILED; a topic by an unknown id is rejected where it is deleted."""
    if not call.rights.allows_on_cluster(AclOperation.DELETE):
        found = topic_by_id(call, topic.topic_id) if topic.topic_id else None
        name = found.name if found is not None else topic.name
        if name and not topic.topic_id:
            call.rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
        if name:
            call.rights.require(AclOperation.DELETE, AclResourceType.TOPIC, name)


def _visible_name(call: Call, topic_id: str) -> str | None:
    """Returns the name of a topic that the client may DESCRIBE."""
    topic = topic_by_id(call, topic_id)
    if topic is None or not call.rights.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name):
        return None
    return topic.name


def named_topics(request: DeleteTopicsRequest) -> list[NamedTopic]:
    """Returns the topics; versions before 6 list names only."""
    by_name = [NamedTopic(name, "") for name in request.topic_names]
    return by_name or [NamedTopic(topic.name or "", topic.topic_id) for topic in request.topics]


_refuse = Refusal(
    DeleteTopicsResponse, {"responses": named_topics, "responses.name": lambda topic: topic.name_in_result}
)
API = Api(20, (1, 6), handle, _refuse)
