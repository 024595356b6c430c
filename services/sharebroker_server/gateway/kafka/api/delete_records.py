"""DeleteRecords (21): moves the start of partitions' logs."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.admin.cluster import delete_records
from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.convert import to_proto
from sharebroker_server.gateway.kafka.topics import Located, by_topic, each_partition, locate
from sharebroker_server.kafka_wire.messages import DeleteRecordsRequest, DeleteRecordsResponse

_NONE: Final = -1

_Item = DeleteRecordsRequest.DeleteRecordsPartition
_Result = DeleteRecordsResponse.DeleteRecordsPartitionResult
_partition = to_proto(_Item, pb.DeleteRecordsRequest.Partition, {"partition_index": "partition"})


async def handle(call: Call[DeleteRecordsRequest]) -> DeleteRecordsResponse:
    """Returns one result per partition."""
    located = [
        locate(call, item, item.partition_index, name=topic.name)
        for topic in call.request.topics
        for item in topic.partitions
    ]
    results = await each_partition(
        located,
        lambda items: _ordinary(call, items),
        _internal,
        lambda one: _failed(one.item, one.error.code),
    )
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(name=topic.name, partitions=of_topic)
            for topic, of_topic in by_topic(call.request.topics, results)
        ]
    )


async def _ordinary(call: Call[DeleteRecordsRequest], items: list[Located[_Item]]) -> list[_Result]:
    partitions = [_partition(item, topic_id=topic.topic_id) for topic, item in items]
    request = pb.DeleteRecordsRequest(partitions=partitions)
    deleted = await delete_records(call.gateway, request, call.deadline(call.request.timeout_ms))
    return [
        _Result(
            partition_index=result.partition,
            low_watermark=_NONE if result.error_code else result.low_watermark,
            error_code=result.error_code,
        )
        for result in deleted.partitions
    ]


async def _internal(items: list[Located[_Item]]) -> list[_Result]:
    """Rejects each partition: as in Kafka, clients cannot delete records of internal topics."""
    return [_failed(item, ErrorCode.INVALID_TOPIC_EXCEPTION) for _, item in items]


def _failed(item: _Item, code: ErrorCode) -> _Result:
    return _Result(partition_index=item.partition_index, low_watermark=_NONE, error_code=code)


_refuse = refusal(
    DeleteRecordsResponse, {"topics": "topics", "topics.partitions": "partitions"}, low_watermark=_NONE
)
API = Api(21, (0, 2), handle, _refuse)
