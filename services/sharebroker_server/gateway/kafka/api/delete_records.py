"""DeleteRecords (21): moves the start of partitions' logs."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.admin.partitions import delete_records
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.topics import (
    Located,
    Rejected,
    by_topic,
    each_partition,
    locate,
)
from sharebroker_server.kafka_wire.messages import DeleteRecordsRequest, DeleteRecordsResponse
from sharebroker_server.security.acl import AclOperation

_NONE: Final = -1
_NAMES: Final = {"partition_index": "partition"}

_Item = DeleteRecordsRequest.DeleteRecordsPartition
_Result = DeleteRecordsResponse.DeleteRecordsPartitionResult
_partition = to_proto(_Item, pb.DeleteRecordsRequest.Partition, _NAMES)
_result = to_kafka(pb.DeleteRecordsResponse.Partition, _Result, _NAMES)
_Topic = DeleteRecordsResponse.DeleteRecordsTopicResult


async def handle(call: Call[DeleteRecordsRequest]) -> DeleteRecordsResponse:
    """Returns one result per partition."""
    located = (
        locate(call, AclOperation.DELETE, item, item.partition_index, name=topic.name)
        for topic in call.request.topics
        for item in topic.partitions
    )
    deadline = call.deadline(call.request.timeout_ms)
    results = await each_partition(
        located, lambda items: _ordinary(call, items, deadline), _internal, _rejected, call.gateway.turns
    )
    return DeleteRecordsResponse(topics=await by_topic(call, results, _Topic))


async def _ordinary(
    call: Call[DeleteRecordsRequest], items: list[Located[_Item]], deadline: Deadline
) -> list[_Result]:
    partitions = [_partition(item, topic_id=topic.topic_id) for topic, item in items]
    request = pb.DeleteRecordsRequest(partitions=partitions)
    deleted = await delete_records(call.gateway, request, deadline)
    return [
        _result(result, low_watermark=_NONE) if result.error_code else _result(result)
        for result in deleted.partitions
    ]


async def _internal(items: list[Located[_Item]]) -> list[_Result]:
    """Rejects each partition: as in Kafka, clients cannot delete records of internal topics."""
    error = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    return [_rejected(Rejected(item, error)) for _, item in items]


def _rejected(rejected: Rejected[_Item]) -> _Result:
    result: _Result = _refuse.item("topics.partitions", rejected.item, rejected.error)
    return result


_refuse = Refusal(
    DeleteRecordsResponse, {"topics": "topics", "topics.partitions": "partitions"}, low_watermark=_NONE
)
API = Api(21, (0, 2), handle, _refuse)
