"""Metadata (3): brokers, topics, and the leaders of partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import INTERNAL_TOPIC_IDS, Topic, check_topic_name
from sharebroker_server.gateway.admin.cluster import cluster_id
from sharebroker_server.gateway.admin.topics import create_on_demand
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.cluster_view import Broker
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.topics import (
    ON_CLUSTER,
    authorized_operations,
    describe_topic,
    topic_of,
    topics,
)
from sharebroker_server.kafka_wire.messages import MetadataRequest, MetadataResponse

_BY_ID: Final = 12
"""Versions 10 and 11 have topic ids in their messages, which brokers ignore."""

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = MetadataResponse.MetadataResponsePartition
_broker = to_kafka(Broker, MetadataResponse.MetadataResponseBroker)


async def handle(call: Call[MetadataRequest]) -> MetadataResponse:
    """Returns one entry per topic; an unknown topic has its error in its own entry."""
    _check_names(call)
    call = replace(call, view=await call.listener.brokers.checked())
    return MetadataResponse(
        brokers=list(map(_broker, call.view.listed.values())),
        cluster_id=await cluster_id(call.gateway, call.deadline()) or None,
        controller_id=min(call.view.brokers),
        topics=await _topics(call),
        cluster_authorized_operations=authorized_operations(
            ON_CLUSTER, requested=call.request.include_cluster_authorized_operations
        ),
    )


def _check_names(call: Call[MetadataRequest]) -> None:
    if call.version < _BY_ID and any(
        topic.name is None or topic.topic_id for topic in call.request.topics or ()
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Version {call.version} requires topic names.")


async def _topics(call: Call[MetadataRequest]) -> list[_Topic]:
    requested = call.request.topics
    # Before version 1 an empty list means all topics, from then on null does.
    if requested is None or (call.version == 0 and not requested):
        return [_topic(call, topic) for topic in topics(call)]
    return [await _find(call, topic.name, topic.topic_id) for topic in requested]


async def _find(call: Call[MetadataRequest], name: str | None, topic_id: str) -> _Topic:
    try:
        if not topic_id:
            check_topic_name(name or "")
            if name not in INTERNAL_TOPIC_IDS and call.request.allow_auto_topic_creation:
                await create_on_demand(call.gateway, name or "", call.deadline())
        return _topic(call, topic_of(call, name or "", topic_id))
    except KafkaError as error:
        return _Topic(error_code=error.code, name=None if topic_id else name, topic_id=topic_id)


def _topic(call: Call[MetadataRequest], topic: Topic) -> _Topic:
    operations = call.request.include_topic_authorized_operations
    return describe_topic(call, topic, range(topic.partitions), _Topic, _Partition, operations=operations)


_refuse = Refusal(MetadataResponse, {"topics": "topics", "topics.name": lambda topic: topic.name or ""})
API = Api(3, (0, 13), handle, _refuse)
