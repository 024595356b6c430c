"""Topics: rights, the controller, mixed requests, and the wait until a change is visible."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.kafka.forwarding import visibility
from sharebroker_server.kafka_wire.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness
from tests.unit.gateway.kafka.forwarding.harness import OTHER, OWN, FakeUpstream, renamed

CONTROLLER = 2
NEW = Topic("N" * 21 + "A", "new", 3, upstream=True)
NOT_CONTROLLER = 41


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the wait for changes that no catalog of a test follows."""
    monkeypatch.setattr(visibility, "VISIBLE_SECONDS", 0.02)


def store(harness: Harness, topic: Topic) -> None:
    catalog = harness.gateway.catalog.catalog
    catalog.apply(TopicRecord(topic), catalog.position + 1)


def creation(*names: str, **fields: Any) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic
    made = [topic(name=name, num_partitions=3, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=made, timeout_ms=3000, **fields)


def created(_: int, request: Any, code: int = 0) -> CreateTopicsResponse:
    config = CreateTopicsResponse.CreatableTopicConfigs(name="retention.ms", value="1")
    return CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.CreatableTopicResult(
                name=topic.name,
                topic_id=NEW.topic_id,
                error_code=code,
                num_partitions=topic.num_partitions,
                replication_factor=1,
                configs=[config],
            )
            for topic in reversed(request.topics)
        ]
    )


async def test_topics_are_created_by_the_controller(harness: Harness, upstream: FakeUpstream) -> None:
    upstream.reply = created
    response = await harness.call(7, creation("a", "b"), CreateTopicsResponse)
    assert [(one.name, one.num_partitions, len(one.configs or ())) for one in response.topics] == [
        ("a", 3, 1),
        ("b", 3, 1),
    ]
    assert [node for node, _ in upstream.sent] == [CONTROLLER]
    assert upstream.fake.topics_changed.is_set()


async def test_dead_letter_topics_and_internal_ones_are_created_here(
    harness: Harness, upstream: FakeUpstream
) -> None:
    def here(request: pb.CreateTopicsRequest) -> pb.CreateTopicsResponse:
        codes = {"dlq.new": wire(ErrorCode.NONE)}
        return pb.CreateTopicsResponse(
            topics=[
                pb.CreateTopicsResponse.Topic(
                    name=one.name,
                    topic_id=OWN.topic_id,
                    num_partitions=1,
                    error_code=codes.get(one.name, wire(ErrorCode.POLICY_VIOLATION)),
                )
                for one in request.topics
            ]
        )

    harness.services.reply("CreateTopics", here)
    upstream.reply = created
    response = await harness.call(7, creation("dlq.new", "a", "__offsets"), CreateTopicsResponse)
    assert [(one.name, one.error_code) for one in response.topics] == [
        ("dlq.new", 0),
        ("a", 0),
        ("__offsets", ErrorCode.POLICY_VIOLATION),
    ]
    assert [one.name for one in upstream.messages()[0].topics] == ["a"]


async def test_creation_requires_the_right(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    authorizer.deny(AclOperation.CREATE, AclResourceType.CLUSTER)
    authorizer.deny(AclOperation.CREATE, AclResourceType.TOPIC, "b")
    authorizer.deny(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC)
    upstream.reply = created
    response = await harness.call(7, creation("a", "b"), CreateTopicsResponse)
    allowed, denied = response.topics
    assert (allowed.error_code, allowed.topic_config_error_code, allowed.num_partitions, allowed.configs) == (
        0,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        -1,
        None,
    )
    assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [one.name for one in upstream.messages()[0].topics] == ["a"]


async def test_names_twice_and_assignments_are_not_forwarded(
    harness: Harness, upstream: FakeUpstream
) -> None:
    harness.services.fail("CreateTopics", ErrorCode.POLICY_VIOLATION)
    response = await harness.call(7, creation("a", "a"), CreateTopicsResponse)
    assert {one.error_code for one in response.topics} == {ErrorCode.INVALID_REQUEST}
    made = creation("a")
    made.topics[0].num_partitions = made.topics[0].replication_factor = -1
    assignment = CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])
    made.topics[0].assignments = [assignment]
    response = await harness.call(7, made, CreateTopicsResponse)
    assert [one.error_code for one in response.topics] == [ErrorCode.POLICY_VIOLATION]
    assert not upstream.sent


async def test_a_new_controller_is_looked_up(harness: Harness, upstream: FakeUpstream) -> None:
    upstream.reply = lambda node, request: created(node, request, NOT_CONTROLLER if node == 2 else 0)
    upstream.fake.after_refresh = renamed_controller(upstream, 1)
    response = await harness.call(7, creation("a"), CreateTopicsResponse)
    assert [one.error_code for one in response.topics] == [0]
    assert [node for node, _ in upstream.sent] == [2, 1]


def renamed_controller(upstream: FakeUpstream, node: int) -> Any:
    metadata = upstream.fake.metadata
    return type(metadata)(
        metadata.cluster_id, metadata.brokers, metadata.topics, metadata.errors, controller_id=node
    )


async def test_partitions_are_added_in_the_cluster(
    harness: Harness, upstream: FakeUpstream, authorizer: TableAuthorizer
) -> None:
    def grown(_: int, request: Any) -> CreatePartitionsResponse:
        for one in request.topics:
            store(harness, renamed(TOPIC, partitions=one.count, upstream=True))
        results = [
            CreatePartitionsResponse.CreatePartitionsTopicResult(name=one.name) for one in request.topics
        ]
        return CreatePartitionsResponse(results=results)

    upstream.reply = grown
    authorizer.deny(AclOperation.ALTER, AclResourceType.TOPIC, OTHER.name)
    made = [
        CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=4, assignments=None)
        for name in (OTHER.name, TOPIC.name)
    ]
    request = CreatePartitionsRequest(topics=made, timeout_ms=1000)
    response = await harness.call(3, request, CreatePartitionsResponse)
    assert [one.error_code for one in response.results] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0]
    assert [one.name for one in upstream.messages()[0].topics] == [TOPIC.name]
