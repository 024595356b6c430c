"""DescribeLogDirs (35): the sizes of the partitions that this broker leads.

All logs are stored in Redis, which clients see as the only log directory.
"""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.delivery.v1.delivery_pb2 import TopicPartition
from sharebroker_server.gateway.admin.partitions import describe_logs
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.kafka_wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from sharebroker_server.security.acl import AclOperation

_DIRECTORY: Final = "redis"

_Partition = DescribeLogDirsResponse.DescribeLogDirsPartition


async def handle(call: Call[DescribeLogDirsRequest]) -> DescribeLogDirsResponse:
    """Omits partitions whose size is unavailable, as Kafka omits partitions that it does not store."""
    call.rights.require_on_cluster(AclOperation.DESCRIBE)
    names = {topic.topic_id: topic.name for topic in call.gateway.catalog.catalog.topics()}
    logs = await describe_logs(call.gateway, _requested(call), call.deadline())
    topics: dict[str, list[_Partition]] = {}
    for log in logs:
        if not log.error_code and log.topic_id in names:
            partition = _Partition(partition_index=log.partition, partition_size=log.size)
            topics.setdefault(names[log.topic_id], []).append(partition)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResponse.DescribeLogDirsResult(
                log_dir=_DIRECTORY,
                topics=[
                    DescribeLogDirsResponse.DescribeLogDirsTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            )
        ]
    )


def _requested(call: Call[DescribeLogDirsRequest]) -> list[TopicPartition]:
    """Returns the requested partitions (all for null) that this broker leads."""
    catalog = call.gateway.catalog
    if call.request.topics is None:
        found = [(topic, list(range(topic.partitions))) for topic in catalog.catalog.topics()]
    else:
        named = [(catalog.topic(one.topic), list(one.partitions)) for one in call.request.topics]
        found = [(topic, indices) for topic, indices in named if topic is not None]
    return [
        TopicPartition(topic_id=topic.topic_id, partition=index)
        for topic, indices in found
        for index in dict.fromkeys(indices)
        if 0 <= index < topic.partitions and call.view.leads(topic.topic_id, index)
    ]


API = Api(35, (1, 5), handle, Refusal(DescribeLogDirsResponse))
