"""CreateTopics: each topic has its own result, with its configs from version 5 on."""

from __future__ import annotations

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog import topics
from sharebroker_server.kafka_wire.messages import CreateTopicsRequest, CreateTopicsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import add_topic
from tests.unit.gateway.kafka.api.harness import Harness

Topic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig
CREATED = topics.Topic("A" * 22, "new", 3)


def assignment(*broker_ids: int) -> CreateTopicsRequest.CreatableReplicaAssignment:
    return CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=broker_ids)


def reply(request: pb.CreateTopicsRequest) -> pb.CreateTopicsResponse:
    made = [
        pb.CreateTopicsResponse.Topic(
            name=one.name, topic_id=CREATED.topic_id, num_partitions=one.num_partitions, configs=one.configs
        )
        for one in request.topics
    ]
    return pb.CreateTopicsResponse(topics=made)


async def test_a_valid_topic_is_created(harness: Harness) -> None:
    harness.services.reply("CreateTopics", reply)
    config = Config(name="retention.ms", value="1000")
    topic = Topic(name="new", num_partitions=3, replication_factor=1, configs=[config])
    request = CreateTopicsRequest(topics=[topic], validate_only=True)
    (result,) = (await harness.call(7, request, CreateTopicsResponse)).topics
    assert (result.name, result.error_code) == ("new", ErrorCode.NONE)
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    assert {one.name: one.value for one in result.configs or ()}["retention.ms"] == "1000"
    (old,) = (await harness.call(4, request, CreateTopicsResponse)).topics
    assert (old.num_partitions, old.configs) == (-1, ()), "older versions have no description"
    for sent in harness.services.requests["CreateTopics"]:
        assert [(one.name, one.num_partitions, one.configs) for one in sent.topics] == [
            ("new", 3, {"retention.ms": "1000"})
        ]
        assert sent.validate_only


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (Topic(name="t", num_partitions=0, replication_factor=1), ErrorCode.INVALID_PARTITIONS),
        (Topic(name="t", num_partitions=1, replication_factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (Topic(name="t", num_partitions=1, replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (Topic(name="t", num_partitions=1, assignments=[assignment(1)]), ErrorCode.INVALID_REQUEST),
        (
            Topic(name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment(9)]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            Topic(name="t", num_partitions=1, replication_factor=1, configs=[Config(name="a", value=None)]),
            ErrorCode.INVALID_CONFIG,
        ),
    ],
    ids=["partitions", "replication", "no replica", "both", "unknown broker", "null config"],
)
async def test_an_invalid_topic_is_rejected_alone(harness: Harness, topic: Topic, code: ErrorCode) -> None:
    harness.services.reply("CreateTopics", reply)
    good = Topic(name="good", num_partitions=1, replication_factor=-1)
    request = CreateTopicsRequest(topics=[topic, good], validate_only=True)
    response = await harness.call(5, request, CreateTopicsResponse)
    assert [(one.name, one.error_code) for one in response.topics] == [("t", code), ("good", ErrorCode.NONE)]
    assert response.topics[0].configs is None
    assert [one.name for one in harness.services.only("CreateTopics").topics] == ["good"]


async def test_a_failed_request_fails_each_topic(harness: Harness) -> None:
    harness.services.fail("CreateTopics", ErrorCode.POLICY_VIOLATION)
    request = CreateTopicsRequest(topics=[Topic(name="t", num_partitions=4, replication_factor=1)])
    (result,) = (await harness.call(7, request, CreateTopicsResponse)).topics
    assert (result.name, result.error_code) == ("t", ErrorCode.POLICY_VIOLATION)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, None)


async def test_configs_are_shown_to_clients_that_may_describe_them(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    harness.services.reply("CreateTopics", reply)
    add_topic(harness.gateway.catalog, CREATED)
    authorizer.deny(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, "new")
    topic = Topic(name="new", num_partitions=3, replication_factor=1)
    (result,) = (await harness.call(7, CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)).topics
    assert (result.error_code, result.topic_config_error_code) == (
        ErrorCode.NONE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
    assert (result.name, result.num_partitions, result.configs) == ("new", -1, [])
