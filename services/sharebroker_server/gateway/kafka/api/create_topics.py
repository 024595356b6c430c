"""CreateTopics (19): creates topics; any broker forwards the request to the owner of the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.config_views import ConfigEntry, describe_settings
from sharebroker_server.catalog.topics import ResourceType
from sharebroker_server.gateway.admin.topics import create_topics
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.catalog_changes import (
    DEFAULT,
    REPLICAS,
    check_assignments,
    check_numbering,
    check_replication_factor,
    duplicate_check,
    each_item,
)
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.kafka_wire.encoder import EncodedArray
from sharebroker_server.kafka_wire.frames import codec_of
from sharebroker_server.kafka_wire.messages import CreateTopicsRequest, CreateTopicsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_Topic = CreateTopicsRequest.CreatableTopic
_Created = pb.CreateTopicsResponse.Topic
_NO_NUMBER: Final = (0, DEFAULT)
_result = to_kafka(_Created, CreateTopicsResponse.CreatableTopicResult, omit=("configs",))
_config = to_kafka(ConfigEntry, CreateTopicsResponse.CreatableTopicConfigs, {"config_source": "source"})


async def handle(call: Call[CreateTopicsRequest]) -> CreateTopicsResponse:
    """Returns one result per topic."""
    check = duplicate_check((topic.name for topic in call.request.topics), "topic name")

    def translate(topic: _Topic) -> pb.CreateTopicsRequest.Topic:
        check(topic.name)
        call.rights.require_creation(topic.name)
        partitions, configs = _partition_count(call, topic), _configs(topic)
        if not call.request.validate_only:
            added = call.gateway.catalog.broker.num_partitions if partitions == DEFAULT else partitions
            call.mutate(added, strict_from=6)
        return pb.CreateTopicsRequest.Topic(name=topic.name, num_partitions=partitions, configs=configs)

    async def send(topics: list[pb.CreateTopicsRequest.Topic]) -> Iterable[_Created]:
        request = pb.CreateTopicsRequest(topics=topics, validate_only=call.request.validate_only)
        return (await create_topics(call.gateway, request, call.deadline(call.request.timeout_ms))).topics

    encoded = codec_of(API.key, call.version).encoded
    results = await each_item(
        call.gateway.turns,
        call.request.topics,
        translate,
        send,
        lambda _, created: encoded(_created(call, created)),
        lambda topic, error: encoded(_refuse.item("topics", topic, error)),
    )
    # Encoded in portions: a result has thirty configs.
    topics = cast("list[CreateTopicsResponse.CreatableTopicResult]", EncodedArray(results))
    return CreateTopicsResponse(topics=topics)


def _partition_count(call: Call, topic: _Topic) -> int:
    brokers = call.view.brokers
    if not topic.assignments:
        if topic.num_partitions == 0 or topic.num_partitions < DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        check_replication_factor(topic.replication_factor, brokers)
        return topic.num_partitions
    if topic.num_partitions not in _NO_NUMBER or topic.replication_factor not in _NO_NUMBER:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A topic has either a number of partitions and a replication factor, or assignments; not both.",
        )
    check_numbering([one.partition_index for one in topic.assignments])
    check_assignments([one.broker_ids for one in topic.assignments], brokers)
    return len(topic.assignments)


def _configs(topic: _Topic) -> dict[str, str]:
    configs = {}
    for config in topic.configs:
        if config.value is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic config: {config.name}"
            )
        configs[config.name] = config.value
    return configs


def _created(call: Call, created: _Created) -> CreateTopicsResponse.CreatableTopicResult:
    if not call.rights.allows(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, created.name):
        return CreateTopicsResponse.CreatableTopicResult(
            name=created.name,
            topic_id=created.topic_id,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    catalog = call.gateway.catalog
    entries = describe_settings(catalog.catalog, catalog.static, ResourceType.TOPIC, created.configs)
    return _result(created, replication_factor=REPLICAS, configs=list(map(_config, entries)))


_refuse = Refusal(
    CreateTopicsResponse, {"topics": "topics"}, num_partitions=-1, replication_factor=-1, configs=None
)
API = Api(19, (2, 7), handle, _refuse)
