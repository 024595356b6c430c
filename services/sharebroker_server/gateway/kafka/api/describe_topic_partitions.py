"""DescribeTopicPartitions (75): topics by name, in pages of partitions, with a cursor for the next page."""

from __future__ import annotations

from functools import partial
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import Topic, check_topic_name
from sharebroker_server.gateway.core.paging import PagePosition, page
from sharebroker_server.gateway.kafka.authorization import authorized_operations
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.topics import PORTION, describable_topics, describe_topic, topic_of
from sharebroker_server.kafka_wire.messages import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from sharebroker_server.security.acl import AclOperation, AclResourceType, Resource

_MAX_PARTITIONS: Final = 2000
"""Partitions of a page (Kafka: max.request.partition.size.limit)."""

_Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


async def handle(call: Call[DescribeTopicPartitionsRequest]) -> DescribeTopicPartitionsResponse:
    """Returns one page; an unknown topic has its error in its own entry. Raises INVALID_REQUEST."""
    start = _start(call.request.cursor)
    found = {name: topic for name, topic in sorted((await _topics(call)).items()) if name >= start.topic}
    counts = ((name, topic.partitions if isinstance(topic, Topic) else 0) for name, topic in found.items())
    limit = max(1, min(call.request.response_partition_limit, _MAX_PARTITIONS))
    slices, following = page(counts, start, limit)
    cursor = following and DescribeTopicPartitionsResponse.Cursor(
        topic_name=following.topic, partition_index=following.partition
    )
    return DescribeTopicPartitionsResponse(
        topics=await call.gateway.turns.collect(
            (_topic(call, name, found[name], indices) for name, indices in slices), PORTION
        ),
        next_cursor=cursor,
    )


def _start(cursor: DescribeTopicPartitionsRequest.Cursor | None) -> PagePosition:
    if cursor is None:
        return PagePosition("", 0)
    if cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"A cursor at partition {cursor.partition_index} of a topic."
        )
    return PagePosition(cursor.topic_name, cursor.partition_index)


async def _topics(call: Call[DescribeTopicPartitionsRequest]) -> dict[str, Topic | KafkaError]:
    if not call.request.topics:
        return {topic.name: topic for topic in await describable_topics(call)}
    found = ((topic.name, _find(call, topic.name)) for topic in call.request.topics)
    return dict(await call.gateway.turns.collect(found, PORTION))


def _find(call: Call, name: str) -> Topic | KafkaError:
    try:
        call.rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
        check_topic_name(name)
        return topic_of(call, AclOperation.DESCRIBE, name)
    except KafkaError as error:
        return error


def _topic(call: Call, name: str, topic: Topic | KafkaError, indices: range) -> _Topic:
    if isinstance(topic, KafkaError) and topic.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return _Topic(name=name, error_code=topic.code)
    operations = authorized_operations(call, Resource(AclResourceType.TOPIC, name), requested=True)
    if isinstance(topic, KafkaError):
        return _Topic(name=name, error_code=topic.code, topic_authorized_operations=operations)
    partition = partial(_Partition, eligible_leader_replicas=(), last_known_elr=())
    return describe_topic(call, topic, indices, _Topic, partition, operations)


API = Api(75, (0, 0), handle, Refusal(DescribeTopicPartitionsResponse, {"topics": "topics"}))
