"""DescribeTopicPartitions (75): topics by name, so many partitions a page, and a cursor for the next."""

from __future__ import annotations

from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.names import check_topic_name
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.core.paging import Position, page
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers import authorized_operations
from sharebroker_server.gateway.kafka.helpers.topics import is_internal, topic_of, topics
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(75)
_MOST: Final = 2000
"""Partitions of a page (Kafka: max.request.partition.size.limit)."""


async def handle(call: Call) -> Message:
    """A topic that does not exist has its error in its own entry. Raises INVALID_REQUEST."""
    start = _start(call.request.cursor)
    asked = {name: found for name, found in sorted(_asked(call).items()) if name >= start.topic}
    counts = ((name, found.partitions if isinstance(found, Topic) else 0) for name, found in asked.items())
    limit = max(1, min(call.request.response_partition_limit, _MOST))
    slices, following = page(counts, start, limit)
    return _R.DescribeTopicPartitionsResponse(
        topics=[_topic(call, name, asked[name], taken) for name, taken in slices],
        next_cursor=following and _R.Cursor(topic_name=following.topic, partition_index=following.partition),
    )


def _start(cursor: Any) -> Position:
    if cursor is None:
        return Position("", 0)
    if cursor.partition_index < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"A cursor at partition {cursor.partition_index} of a topic."
        )
    return Position(cursor.topic_name, cursor.partition_index)


def _asked(call: Call) -> dict[str, Topic | KafkaError]:
    if not call.request.topics:
        return {topic.name: topic for topic in topics(call)}
    return {asked.name: _found(call, asked.name) for asked in call.request.topics}


def _found(call: Call, name: str) -> Topic | KafkaError:
    try:
        check_topic_name(name)
        return topic_of(call, name)
    except KafkaError as error:
        return error


def _topic(call: Call, name: str, found: Topic | KafkaError, taken: range) -> Message:
    if isinstance(found, KafkaError):
        return _R.DescribeTopicPartitionsResponseTopic(name=name, error_code=found.code)
    return _R.DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=found.topic_id,
        is_internal=is_internal(found),
        partitions=[_partition(call, found, index) for index in taken],
        topic_authorized_operations=authorized_operations.of_topic(asked=True),
    )


def _partition(call: Call, topic: Topic, index: int) -> Message:
    leader = call.view.leader(topic.topic_id, index)
    return _R.DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=leader,
        leader_epoch=call.view.epoch,
        replica_nodes=(leader,),
        isr_nodes=(leader,),
        eligible_leader_replicas=(),
        last_known_elr=(),
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _R.DescribeTopicPartitionsResponse(
        topics=[
            _R.DescribeTopicPartitionsResponseTopic(name=asked.name, error_code=error.code)
            for asked in call.request.topics
        ]
    )


API = Api(75, (0, 0), handle, _refuse)
