"""The topics of Metadata: what a client may see, what it may create, and what is encoded for it."""

from __future__ import annotations

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.kafka.metadata_topics import TopicEncoder, find_topics
from sharebroker_server.kafka_wire.messages import MetadataRequest, MetadataResponse
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC, add_topic
from tests.unit.gateway.kafka.api.harness import Harness

Entry = MetadataResponse.MetadataResponseTopic


def by_name(*names: str, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(
        topics=topics, allow_auto_topic_creation=create, include_topic_authorized_operations=True
    )


@pytest.fixture
def authorizer(api_harness: Harness) -> TableAuthorizer:
    authorizer = api_harness.gateway.authorizer = TableAuthorizer()
    return authorizer


async def errors(harness: Harness, request: MetadataRequest) -> dict[str | None, int]:
    found = await find_topics(harness.call_of(request, 9), Deadline(5))
    return {topic.name: topic.error_code if isinstance(topic, Entry) else 0 for topic in found}


async def test_forbidden_names_look_like_each_other(
    api_harness: Harness, authorizer: TableAuthorizer
) -> None:
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC)
    request = by_name(TOPIC.name, "unknown", "in valid")
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert await errors(api_harness, request) == dict.fromkeys([TOPIC.name, "unknown", "in valid"], code)


async def test_a_request_for_all_topics_omits_forbidden_ones(
    api_harness: Harness, authorizer: TableAuthorizer
) -> None:
    authorizer.deny(AclOperation.DESCRIBE, AclResourceType.TOPIC, TOPIC.name)
    found = await errors(api_harness, MetadataRequest(topics=None))
    assert found == {"__consumer_offsets": 0, "__share_group_state": 0}


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        ([AclResourceType.TOPIC], ErrorCode.NONE),
        ([AclResourceType.CLUSTER], ErrorCode.NONE),
        ([AclResourceType.TOPIC, AclResourceType.CLUSTER], ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
async def test_creation_requires_create_on_the_cluster_or_the_topic(
    api_harness: Harness, authorizer: TableAuthorizer, kinds: list[AclResourceType], code: ErrorCode
) -> None:
    def reply(request: pb.CreateTopicsRequest) -> pb.CreateTopicsResponse:
        add_topic(api_harness.gateway.catalog, Topic("N" * 21 + "A", "new", 1))
        return pb.CreateTopicsResponse(
            topics=[
                pb.CreateTopicsResponse.Topic(
                    name=request.topics[0].name, error_code=wire(ErrorCode.TOPIC_ALREADY_EXISTS)
                )
            ]
        )

    api_harness.services.reply("CreateTopics", reply)
    api_harness.gateway.catalog.broker = BrokerConfig.of({"auto.create.topics.enable": "true"})
    for kind in kinds:
        authorizer.deny(AclOperation.CREATE, kind)
    found = await errors(api_harness, by_name("new", create=True))
    assert (found["new"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED) is (code != ErrorCode.NONE)
    assert bool(api_harness.services.requests["CreateTopics"]) is (code == ErrorCode.NONE)


async def test_cached_bytes_are_not_shared_by_clients_with_other_permissions(
    api_harness: Harness, authorizer: TableAuthorizer
) -> None:
    call = api_harness.call_of(by_name(TOPIC.name), 9)
    everything = TopicEncoder(call)(TOPIC)
    authorizer.deny(AclOperation.DELETE, AclResourceType.TOPIC)
    assert TopicEncoder(call)(TOPIC) != everything
    authorizer.allow_all()
    assert TopicEncoder(call)(TOPIC) == everything
