"""DescribeLogDirs (35): how large the partitions are that this broker leads.

There is one place where logs lie, the Redis behind the leaders; clients see it as the only log directory.
"""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.delivery.v1.delivery_pb2 import TopicPartition
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.admin.cluster import describe_logs
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(35)
_DIRECTORY: Final = "redis"


async def handle(call: Call) -> Message:
    """What cannot be told of a partition now is left out, as Kafka leaves out what is not there."""
    names = {topic.topic_id: topic.name for topic in call.gateway.catalog.catalog.topics()}
    logs = await describe_logs(call.gateway, _wanted(call), call.deadline())
    topics: dict[str, list[Message]] = {}
    for log in logs:
        if not log.error_code and log.topic_id in names:
            topics.setdefault(names[log.topic_id], []).append(
                _R.DescribeLogDirsPartition(partition_index=log.partition, partition_size=log.size)
            )
    return _R.DescribeLogDirsResponse(
        results=[
            _R.DescribeLogDirsResult(
                log_dir=_DIRECTORY,
                topics=[
                    _R.DescribeLogDirsTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            )
        ]
    )


def _wanted(call: Call) -> list[TopicPartition]:
    """The partitions that are asked for, all for null, as far as clients are to ask this broker for them."""
    catalog = call.gateway.catalog
    if call.request.topics is None:
        asked = [(topic, range(topic.partitions)) for topic in catalog.catalog.topics()]
    else:
        found = [(catalog.topic(one.topic), one.partitions) for one in call.request.topics]
        asked = [(topic, indices) for topic, indices in found if topic is not None]
    return [
        TopicPartition(topic_id=topic.topic_id, partition=index)
        for topic, indices in asked
        for index in dict.fromkeys(indices)
        if 0 <= index < topic.partitions and call.view.leads(topic.topic_id, index)
    ]


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.DescribeLogDirsResponse(error_code=error.code)


API = Api(35, (1, 5), handle, _refuse)
