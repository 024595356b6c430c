"""Metadata (3): brokers, topics, and the leaders of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.admin.cluster import cluster_id
from sharebroker_server.gateway.kafka.authorization import cluster_operations
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.cluster_view import Broker
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.metadata_topics import PORTION, TopicEncoder, find_topics
from sharebroker_server.kafka_wire.encoder import EncodedArray
from sharebroker_server.kafka_wire.messages import MetadataRequest, MetadataResponse

_BY_ID: Final = 12
"""Versions 10 and 11 have topic ids in their messages, which brokers ignore."""

_Topic = MetadataResponse.MetadataResponseTopic
_broker = to_kafka(Broker, MetadataResponse.MetadataResponseBroker)


async def handle(call: Call[MetadataRequest]) -> MetadataResponse:
    """Returns one entry per topic; an unknown topic has its error in its own entry."""
    _check_names(call)
    deadline = call.deadline()
    call = replace(call, view=await call.listener.brokers.checked())
    return MetadataResponse(
        brokers=list(map(_broker, call.view.listed.values())),
        cluster_id=await cluster_id(call.gateway, deadline) or None,
        controller_id=min(call.view.brokers),
        topics=cast("Sequence[_Topic]", await _topics(call, deadline)),
        cluster_authorized_operations=cluster_operations(
            call, requested=call.request.include_cluster_authorized_operations
        ),
    )


def _check_names(call: Call[MetadataRequest]) -> None:
    if call.version < _BY_ID and any(
        topic.name is None or topic.topic_id for topic in call.request.topics or ()
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Version {call.version} requires topic names.")


async def _topics(call: Call[MetadataRequest], deadline: Deadline) -> EncodedArray:
    """Returns the topics as bytes; other requests are served between portions."""
    encode, encoded, cost = TopicEncoder(call), EncodedArray(), 0
    for topic in await find_topics(call, deadline):
        cost += encode.cost(topic)
        if cost > PORTION:
            await call.gateway.turns.next()
            cost = encode.cost(topic)  # another call may have encoded it
        encoded.append(encode(topic))
    return encoded


_refuse = Refusal(MetadataResponse, {"topics": "topics", "topics.name": lambda topic: topic.name or ""})
API = Api(3, (0, 13), handle, _refuse)
