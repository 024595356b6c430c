"""DescribeProducers (61): the active producers of partitions."""

from __future__ import annotations

from functools import partial
from itertools import islice

from sharebroker_protocol.delivery.v1.delivery_pb2 import TopicPartition
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.admin.partitions import Producers, describe_producers
from sharebroker_server.gateway.kafka.call import Api, Call, Echo, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.topics import check_partition, is_internal, topic_of
from sharebroker_server.kafka_wire.messages import DescribeProducersRequest, DescribeProducersResponse
from sharebroker_server.security.acl import AclOperation

_Partition = DescribeProducersResponse.PartitionResponse
_partition = to_kafka(Producers, _Partition, {"partition_index": "partition"})


async def handle(call: Call[DescribeProducersRequest]) -> DescribeProducersResponse:
    """Returns one result per partition."""
    requested = ((topic.name, index) for topic in call.request.topics for index in topic.partition_indexes)
    found = iter(await call.gateway.turns.gather(partial(_describe, call), requested))
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name, partitions=[*islice(found, len(topic.partition_indexes))]
            )
            for topic in call.request.topics
        ]
    )


async def _describe(call: Call, named: tuple[str, int]) -> _Partition:
    name, index = named
    try:
        topic = topic_of(call, AclOperation.READ, name)
        check_partition(call, topic, index)
        if is_internal(topic):  # it has no producers
            return _Partition(partition_index=index)
        partition = TopicPartition(topic_id=topic.topic_id, partition=index)
        (found,) = await describe_producers(call.gateway, [partition], call.deadline())
    except KafkaError as error:
        return _Partition(partition_index=index, error_code=error.code, error_message=error.message)
    return _partition(found, partition_index=index)


_echo: Echo = {
    "topics": "topics",
    "topics.partitions": "partition_indexes",
    "topics.partitions.partition_index": int,
}
_refuse = Refusal(DescribeProducersResponse, _echo, error_message=None)
API = Api(61, (0, 0), handle, _refuse)
