"""CreateTopics (19): any broker passes it on to the owner of the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.config_views import ConfigEntry, describe_settings
from sharebroker_server.catalog.records import ResourceType
from sharebroker_server.gateway.admin.topics import create_topics
from sharebroker_server.gateway.kafka.cluster_view.replica_placement import (
    DEFAULT,
    REPLICAS,
    check_assignments,
    check_numbering,
    check_replication_factor,
)
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.per_item import check_once, each, error_fields, refusal
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(19)
_Created = pb.CreateTopicsResponse.Topic
_NO_NUMBER: Final = (0, DEFAULT)


async def handle(call: Call) -> Message:
    """Each topic has its own result."""
    once = check_once((topic.name for topic in call.request.topics), "topic name")

    def translate(asked: Any) -> pb.CreateTopicsRequest.Topic:
        once(asked.name)
        return pb.CreateTopicsRequest.Topic(
            name=asked.name, num_partitions=_partitions(call, asked), configs=_configs(asked)
        )

    async def send(topics: list[pb.CreateTopicsRequest.Topic]) -> Iterable[_Created]:
        request = pb.CreateTopicsRequest(topics=topics, validate_only=call.request.validate_only)
        return (await create_topics(call.gateway, request, call.deadline(call.request.timeout_ms))).topics

    return _response(call, await each(call.request.topics, translate, send))


def _partitions(call: Call, asked: Any) -> int:
    brokers = call.view.brokers
    if not asked.assignments:
        if asked.num_partitions == 0 or asked.num_partitions < DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        check_replication_factor(asked.replication_factor, brokers)
        return int(asked.num_partitions)
    if asked.num_partitions not in _NO_NUMBER or asked.replication_factor not in _NO_NUMBER:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A topic has either a number of partitions and a replication factor, or assignments; not both.",
        )
    check_numbering([one.partition_index for one in asked.assignments])
    check_assignments([one.broker_ids for one in asked.assignments], brokers)
    return len(asked.assignments)


def _configs(asked: Any) -> dict[str, str]:
    for config in asked.configs:
        if config.value is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic config: {config.name}"
            )
    return {config.name: config.value for config in asked.configs}


def _response(call: Call, outcomes: Sequence[_Created | KafkaError]) -> Message:
    return _R.CreateTopicsResponse(
        topics=[
            _R.CreatableTopicResult(name=asked.name, **_result(call, outcome))
            for asked, outcome in zip(call.request.topics, outcomes, strict=True)
        ]
    )


def _result(call: Call, outcome: _Created | KafkaError) -> dict[str, Any]:
    if isinstance(outcome, KafkaError):
        return {**error_fields(outcome), "configs": None}
    catalog = call.gateway.catalog
    entries = describe_settings(catalog.catalog, catalog.static, ResourceType.TOPIC, outcome.configs)
    return {
        "topic_id": outcome.topic_id,
        "num_partitions": outcome.num_partitions,
        "replication_factor": REPLICAS,
        "configs": [_config(entry) for entry in entries],
    }


def _config(entry: ConfigEntry) -> Message:
    return _R.CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=entry.source)


def _refuse(call: Call, error: KafkaError) -> Message:
    return _response(call, refusal(error, call.request.topics))


API = Api(19, (2, 7), handle, _refuse)
