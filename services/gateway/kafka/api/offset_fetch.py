"""OffsetFetch (9): offsets that consumer groups have committed, of which there are none here.

Consumers that assign partitions to themselves ask where to begin, and then go by `auto.offset.reset`. Where
the API is not there librdkafka 2.16 crashes.
"""

from __future__ import annotations

from typing import Any, Final

from libs.kafka_wire.shapes import Message, response_shapes
from services.gateway.kafka.call import Api, Call
from sharebroker.errors import ErrorCode, KafkaError

_R = response_shapes(9)
_NONE: Final = -1
_FIRST_OF_MANY_GROUPS: Final = 8


async def handle(call: Call) -> Message:
    """Nothing is committed; where all of a group's offsets are asked for, these are none."""
    return _answer(call, ErrorCode.NONE)


def _answer(call: Call, error: ErrorCode) -> Message:
    if call.version < _FIRST_OF_MANY_GROUPS:
        return _R.OffsetFetchResponse(
            error_code=error, topics=[_topic(topic, error) for topic in call.request.topics or ()]
        )
    return _R.OffsetFetchResponse(
        groups=[
            _R.OffsetFetchResponseGroup(
                group_id=group.group_id,
                error_code=error,
                topics=[_topic_of_group(topic, error) for topic in group.topics or ()],
            )
            for group in call.request.groups
        ]
    )


def _topic(asked: Any, error: ErrorCode) -> Message:
    return _R.OffsetFetchResponseTopic(
        name=asked.name,
        partitions=[
            _R.OffsetFetchResponsePartition(
                partition_index=index, committed_offset=_NONE, metadata="", error_code=error
            )
            for index in asked.partition_indexes
        ],
    )


def _topic_of_group(asked: Any, error: ErrorCode) -> Message:
    return _R.OffsetFetchResponseTopics(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            _R.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=_NONE, metadata="", error_code=error
            )
            for index in asked.partition_indexes
        ],
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _answer(call, error.code)


API = Api(9, (1, 10), handle, _refuse)
