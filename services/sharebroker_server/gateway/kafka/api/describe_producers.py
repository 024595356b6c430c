"""DescribeProducers (61): the active producers of partitions."""

from __future__ import annotations

from sharebroker_protocol.delivery.v1.delivery_pb2 import TopicPartition
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.admin.partitions import Producers, describe_producers
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.topics import Rejected, is_internal, locate
from sharebroker_server.kafka_wire.messages import DescribeProducersRequest, DescribeProducersResponse

_Partition = DescribeProducersResponse.PartitionResponse
_partition = to_kafka(Producers, _Partition, {"partition_index": "partition"})


async def handle(call: Call[DescribeProducersRequest]) -> DescribeProducersResponse:
    """Returns one result per partition."""
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[await _describe(call, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in call.request.topics
        ]
    )


async def _describe(call: Call, name: str, index: int) -> _Partition:
    located = locate(call, index, index, name=name)
    if isinstance(located, Rejected):
        return _failed(index, located.error)
    if is_internal(located.topic):  # it has no producers
        return _Partition(partition_index=index)
    partition = TopicPartition(topic_id=located.topic.topic_id, partition=index)
    try:
        (found,) = await describe_producers(call.gateway, [partition], call.deadline())
    except KafkaError as error:
        return _failed(index, error)
    return _partition(found, partition_index=index)


def _failed(index: int, error: KafkaError) -> _Partition:
    return _Partition(partition_index=index, error_code=error.code, error_message=error.message)


_refuse = Refusal(
    DescribeProducersResponse,
    {
        "topics": "topics",
        "topics.partitions": "partition_indexes",
        "topics.partitions.partition_index": int,
    },
    error_message=None,
)
API = Api(61, (0, 0), handle, _refuse)
