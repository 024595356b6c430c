"""Metadata (3): brokers, topics, and which broker leads which partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.internal_topics import IDS
from sharebroker_server.catalog.names import check_topic_name
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.admin.cluster import cluster_id
from sharebroker_server.gateway.admin.topics import create_on_demand
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers import authorized_operations
from sharebroker_server.gateway.kafka.helpers.topics import is_internal, topic_of, topics
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(3)
_KNOWS_IDS: Final = 12
"""Versions 10 and 11 have ids in their messages, which brokers do not look at."""


async def handle(call: Call) -> Message:
    """A topic that does not exist has its error in its own entry."""
    _check_named(call)
    call = replace(call, view=await call.door.brokers.checked())
    return _R.MetadataResponse(
        brokers=[
            _R.MetadataResponseBroker(node_id=broker.node_id, host=broker.host, port=broker.port)
            for broker in call.view.listed.values()
        ],
        cluster_id=await cluster_id(call.gateway, call.deadline()) or None,
        controller_id=min(call.view.brokers),
        topics=await _topics(call),
        cluster_authorized_operations=authorized_operations.of_cluster(
            asked=call.request.include_cluster_authorized_operations
        ),
    )


def _check_named(call: Call) -> None:
    if call.version < _KNOWS_IDS and any(
        one.name is None or one.topic_id for one in call.request.topics or ()
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Version {call.version} knows topics by name.")


async def _topics(call: Call) -> list[Message]:
    asked = call.request.topics
    # Before version 1 an empty list means all, from then on null does.
    if asked is None or (call.version == 0 and not asked):
        return [_topic(call, topic) for topic in topics(call)]
    return [await _asked(call, one.name, one.topic_id) for one in asked]


async def _asked(call: Call, name: str | None, topic_id: str) -> Message:
    try:
        if not topic_id:
            check_topic_name(name or "")
            if name not in IDS and call.request.allow_auto_topic_creation:
                await create_on_demand(call.gateway, name or "", call.deadline())
        return _topic(call, topic_of(call, name or "", topic_id))
    except KafkaError as error:
        return _R.MetadataResponseTopic(
            error_code=error.code, name=None if topic_id else name, topic_id=topic_id
        )


def _topic(call: Call, topic: Topic) -> Message:
    return _R.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic),
        partitions=[_partition(call, topic, index) for index in range(topic.partitions)],
        topic_authorized_operations=authorized_operations.of_topic(
            asked=call.request.include_topic_authorized_operations
        ),
    )


def _partition(call: Call, topic: Topic, index: int) -> Message:
    leader = call.view.leader(topic.topic_id, index)
    return _R.MetadataResponsePartition(
        partition_index=index,
        leader_id=leader,
        leader_epoch=call.view.epoch,
        replica_nodes=(leader,),
        isr_nodes=(leader,),
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    """Before version 13 there is no error for all; each topic has it."""
    return _R.MetadataResponse(
        error_code=error.code,
        topics=[
            _R.MetadataResponseTopic(error_code=error.code, name=one.name or "", topic_id=one.topic_id)
            for one in call.request.topics or ()
        ],
    )


API = Api(3, (0, 13), handle, _refuse)
